"""Rules on files and their form: lengths, names, headers, leftovers."""

import re

from style.common import Finding, check, cpp

FILE_LINES_WARN = 400
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
CPP_LINE_CHARS_MAX = 100
SCRIPT_LINE_CHARS_MAX = 120


@check("file-length")
def file_length(files):
    findings = []
    for file in cpp(files) + [file for file in files if file.path.endswith(".py")]:
        count = len(file.lines) - 1
        if count > FILE_LINES_MAX:
            findings.append(
                Finding(
                    "file-length",
                    file.path,
                    1,
                    f"{count} lines; at most {FILE_LINES_MAX}: split by action",
                )
            )
        elif count > FILE_LINES_WARN:
            print(
                f"{file.path}:1: warning: {count} lines; above {FILE_LINES_WARN} think of splitting"
            )
    return findings


SCOPE = re.compile(r"(?:\[\[[^\]]*\]\]\s*)*(?:namespace|class|struct|enum|union|extern|requires)\b")


@check("function-length")
def function_length(files):
    """Walks the braces: those of namespaces and classes are entered, those after a `)` are functions."""
    findings = []
    for file in cpp(files):
        code = re.sub(
            r"^\s*#[^\n]*(?:\\\n[^\n]*)*",
            lambda found: re.sub(r"[^\n]", " ", found.group(0)),
            file.code,
            flags=re.MULTILINE,
        )
        at, statement = 0, 0
        while at < len(code):
            if code[at] in ";}":
                statement = at + 1
            elif code[at] == "{":
                head = code[statement:at].strip()
                head = re.sub(r"^(?:(?:public|private|protected):\s*)+", "", head)
                statement = at + 1
                if "(" in head and not SCOPE.match(
                    re.sub(r"^template\s*<[^{;]*?>\s*(?=class|struct)", "", head)
                ):
                    first, end = file.line_of(at), closing_brace(code, at)
                    lines = file.line_of(end) - first - 1
                    if lines > FUNCTION_LINES_MAX:
                        findings.append(
                            Finding(
                                "function-length",
                                file.path,
                                first,
                                f"{lines} lines; at most {FUNCTION_LINES_MAX}",
                            )
                        )
                    at, statement = end, end + 1
            at += 1
    return findings


def closing_brace(code, opening):
    """The offset of the partner of the brace at `opening`."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code) - 1


@check("line-length")
def line_length(files):
    scripts = (".py", ".sh", ".cmake", "CMakeLists.txt")
    findings = []
    for file in files:
        if not (file.is_cpp or file.path.endswith(scripts) or file.text.startswith("#!")):
            continue
        most = CPP_LINE_CHARS_MAX if file.is_cpp else SCRIPT_LINE_CHARS_MAX
        findings += [
            Finding("line-length", file.path, number, f"{len(line)} characters; at most {most}")
            for number, line in enumerate(file.lines, 1)
            if len(line) > most and "http" not in line
        ]
    return findings


@check("duplicate-name")
def duplicate_name(files):
    first, findings = {}, []
    for file in cpp(files):
        if file.name in first:
            findings.append(
                Finding(
                    "duplicate-name",
                    file.path,
                    1,
                    f"{first[file.name]} has the same base name; logs print only that",
                )
            )
        first.setdefault(file.name, file.path)
    return findings


@check("file-name")
def file_name(files):
    return [
        Finding("file-name", file.path, 1, "file names are snake_case")
        for file in cpp(files)
        if not re.fullmatch(r"[a-z0-9_]+\.(h|cc|cu)", file.name)
    ]


@check("pragma-once")
def pragma_once(files):
    return [
        Finding("pragma-once", file.path, 1, "a header starts with #pragma once")
        for file in cpp(files)
        if file.is_header and "#pragma once" not in file.code
    ]


@check("todo")
def todo(files):
    return [
        Finding("todo", file.path, number, "TODO(#issue) only")
        for file in files
        if file.is_cpp or file.path.endswith((".py", ".sh", ".cmake", "CMakeLists.txt"))
        if not file.path.startswith(("scripts/style/", "tests/style/"))
        for number, line in enumerate(file.lines, 1)
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line)
    ]


@check("machine-path")
def machine_path(files):
    return [
        Finding("machine-path", file.path, number, "names a path of somebody's machine")
        for file in files
        if not file.path.startswith(("tests/style/", "scripts/style/"))
        for number, line in enumerate(file.lines, 1)
        if re.search(r"(?<![\w.])/(work|root|home/\w+)/\w", line)
    ]
