"""What tidy.py and check_layers.py share: the list of files, source text without comments, the allow-list."""

import dataclasses
import pathlib
import re
import subprocess

SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "__pycache__", ".pytest_cache", ".cache"}
CPP_SUFFIXES = {".h", ".cc", ".cu"}
# Folders of the product; tests/ and perf/ are held to fewer rules.
SOURCE_FOLDERS = ("dataplane", "numa", "gpu", "controlplane", "bindings")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One violation. `subject` is the file, or file:symbol where one file can have several reasons."""

    check: str
    path: str
    line: int
    message: str
    symbol: str = ""

    @property
    def subject(self):
        return f"{self.path}:{self.symbol}" if self.symbol else self.path

    def __str__(self):
        return f"{self.path}:{self.line}: {self.check}: {self.message}"


@dataclasses.dataclass
class SourceFile:
    """A text file of the tree, with its code (comments and literals blanked, same lines and columns)."""

    path: str
    text: str
    code: str

    @property
    def lines(self):
        return self.text.split("\n")

    @property
    def code_lines(self):
        return self.code.split("\n")

    @property
    def is_cpp(self):
        return pathlib.PurePosixPath(self.path).suffix in CPP_SUFFIXES

    @property
    def is_header(self):
        return self.path.endswith(".h")

    @property
    def is_source(self):
        return self.path.split("/")[0] in SOURCE_FOLDERS

    @property
    def name(self):
        return pathlib.PurePosixPath(self.path).name

    @property
    def folder(self):
        return str(pathlib.PurePosixPath(self.path).parent)

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1


TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|"
    r'R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


def blank_comments_and_literals(text):
    """The text with comments and the inside of literals replaced by blanks; line breaks stay."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return TOKEN.sub(blank, text)


def list_paths(root):
    """Files of the repository (tracked, and new ones that git does not ignore); without git, all files."""
    if (root / ".git").exists():
        listing = subprocess.run(
            [
                "git",
                "-C",
                str(root),
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
            capture_output=True,
            check=True,
        )
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [
            str(path.relative_to(root))
            for path in root.rglob("*")
            if not SKIPPED_FOLDERS & set(path.relative_to(root).parts)
        ]
    return sorted(name for name in set(names) if (root / name).is_file())


def read_tree(root):
    """Every text file of the tree."""
    files = []
    for name in list_paths(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        is_cpp = pathlib.PurePosixPath(name).suffix in CPP_SUFFIXES
        files.append(SourceFile(name, text, blank_comments_and_literals(text) if is_cpp else text))
    return files


class AllowList:
    """Exceptions, one a line: `check subject reason...`. A reason is required; an entry that excuses nothing fails."""

    def __init__(self, path):
        self.path = path
        self.entries = {}
        self.faults = []
        self.used = set()
        if not path.exists():
            return
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            words = line.split(None, 2)
            if not words or line.startswith("#"):
                continue
            if len(words) < 3:
                self.faults.append(
                    Finding(
                        "allow-list", path.name, number, "an exception needs check, subject, reason"
                    )
                )
            else:
                self.entries[(words[0], words[1])] = number

    def allows(self, finding):
        for subject in (finding.subject, finding.path):
            if (finding.check, subject) in self.entries:
                self.used.add((finding.check, subject))
                return True
        return False

    def stale(self, checks):
        """Entries of these checks that excused nothing."""
        return [
            Finding(
                "allow-list",
                self.path.name,
                number,
                f"nothing to excuse any more: {check} {subject}",
            )
            for (check, subject), number in self.entries.items()
            if check in checks and (check, subject) not in self.used
        ]


def report(findings, allow, checks):
    """Prints what the allow-list does not excuse; the number of failures."""
    left = [finding for finding in findings if not allow.allows(finding)] + allow.stale(checks)
    for finding in sorted(left, key=lambda finding: (finding.path, finding.line, finding.check)):
        print(finding)
    return len(left)


CHECKS = {}


def check(name):
    """Registers a check: a function from all files to findings."""

    def register(function):
        CHECKS[name] = function
        return function

    return register


def cpp(files, source_only=False):
    return [file for file in files if file.is_cpp and (file.is_source or not source_only)]


def matches(name, files, pattern, message):
    """A finding wherever the pattern occurs in the code of the files."""
    return [
        Finding(name, file.path, number, message)
        for file in files
        for number, line in enumerate(file.code_lines, 1)
        if re.search(pattern, line)
    ]
