"""Rules on what leaves the process or the folder: environment, output, wire structs, options, transports, figures."""

import re

from style.common import Finding, check, cpp, matches


@check("getenv")
def getenv(files):
    places = [file for file in cpp(files, source_only=True) if file.name != "config_load.cc"]
    return matches(
        "getenv",
        places,
        r"\b(secure_)?getenv\s*\(|\benviron\b",
        "the environment is read in config_load.cc only",
    )


@check("stdout")
def stdout(files):
    return matches(
        "stdout",
        cpp(files, source_only=True),
        r"std::cout\b|(?<![\w.>])(std::|::)?(printf|puts|putchar)\s*\(",
        "the library never writes to standard output",
    )


TRANSPORTS = "null|sim|shm|tcp|verbs|mlx5"


@check("transport-name")
def transport_name(files):
    """Only make_rail.cc (and, above the seam, tests and benchmarks) names a concrete transport."""
    named = re.compile(
        rf'"dataplane/transport/({TRANSPORTS})/|\b(Null|Sim|Shm|Tcp|Verbs|Mlx5)Transport\b'
    )
    findings = []
    for file in cpp(files, source_only=True):
        if (
            re.match(rf"dataplane/transport/({TRANSPORTS})/", file.path)
            or file.name == "make_rail.cc"
        ):
            continue
        for number, (line, code) in enumerate(zip(file.lines, file.code_lines), 1):
            if named.search(line if code.lstrip().startswith("#include") else code):
                findings.append(
                    Finding(
                        "transport-name",
                        file.path,
                        number,
                        "a transport is named in make_rail.cc only",
                    )
                )
    return findings


UNIT = re.compile(
    # A unit, possibly as a bound; a rate; an id; a plural counts what it names; fields whose meaning
    # a protocol fixes.
    r"(^|_)(bytes|ns|us|ms|s|percent|count|index|id|level|port|bits)(_(max|min|oldest))?$|_per_\w+$|s(_max|_min)?$|"
    r"(^|_)(magic|version|version_oldest|kind|flags|mask|hash|digest|checksum|code|number|sequence)$|"
    r"(^|_)(generation|epoch|low|high)$|"
    r"^reserved\d*$|^padding\w*$|_$"
)


@check("unit-suffix")
def unit_suffix(files):
    field = re.compile(
        r"^\s+(?:std::)?(?:u?int(?:8|16|32|64)_t|size_t|int|unsigned|long)\s+(\w+)\s*(?:=[^;()]*)?(?:\{[^;]*\})?;"
    )
    findings = []
    for file in cpp(files, source_only=True):
        if not (
            file.is_header
            and ("wire" in file.path.split("/")[:-1] or file.name.endswith("_options.h"))
        ):
            continue
        for number, line in enumerate(file.code_lines, 1):
            found = field.match(line)
            if found and not UNIT.search(found.group(1)):
                findings.append(
                    Finding(
                        "unit-suffix",
                        file.path,
                        number,
                        f"`{found.group(1)}` does not say its unit (unit or _id last)",
                        found.group(1),
                    )
                )
    return findings


@check("wire-size")
def wire_size(files):
    """A struct of a wire folder has a size assertion in its header and golden bytes in a test.

    Structs of controlplane/wire are what a FlatBuffers message decodes to: golden bytes only, of each message.
    """
    golden = "\n".join(
        file.text
        for file in files
        if file.path.startswith("tests/") and "golden" in file.text.lower()
    )
    findings = []
    for file in cpp(files, source_only=True):
        if not (file.is_header and "wire" in file.path.split("/")[:-1]):
            continue
        for found in re.finditer(
            r"^struct (?:alignas\(\w+\) )?(\w+) (?:final )?\{", file.code, re.MULTILINE
        ):
            name, line = found.group(1), file.line_of(found.start())
            decoded = file.path.startswith("controlplane/wire/")
            if decoded and not name.endswith("Message"):
                continue
            if not decoded and not re.search(rf"static_assert\(sizeof\({name}\) ==", file.code):
                findings.append(
                    Finding(
                        "wire-size",
                        file.path,
                        line,
                        f"{name} has no static_assert of its size",
                        name,
                    )
                )
            elif not re.search(rf"\b{name}\b", golden):
                findings.append(
                    Finding(
                        "wire-size", file.path, line, f"no test has golden bytes of {name}", name
                    )
                )
    return findings


@check("perf-data")
def perf_data(files):
    """Every table of docs/perf names, in its rows or in its section, data files that exist."""
    paths = {file.path for file in files}
    findings = []
    for file in files:
        # README.md explains the method and lists the benchmarks; it has no figures.
        if not re.fullmatch(r"docs/perf/(?!README).*\.md", file.path):
            continue
        section_data, rows = [], []

        def close_section():
            if rows and not section_data:
                findings.append(
                    Finding(
                        "perf-data", file.path, rows[0], "a table without a data file (data/*.json)"
                    )
                )

        for number, line in enumerate(file.lines, 1):
            if line.startswith("#"):
                close_section()
                section_data, rows = [], []
            named = re.findall(r"data/[\w.\-]+\.json", line)
            section_data += named
            for data in named:
                if f"docs/perf/{data}" not in paths:
                    findings.append(
                        Finding("perf-data", file.path, number, f"{data} does not exist")
                    )
            if line.startswith("|") and not re.fullmatch(r"[|\s:\-]+", line):
                rows.append(number)
        close_section()
    return findings


HEAVY = re.compile(
    r'#\s*include\s+[<"](boost/(?:asio|beast)|nlohmann/|pybind11/|flatbuffers/|[\w/]*_generated\.h)'
)


@check("heavy-include")
def heavy_include(files):
    """Headers that cost seconds per file are included only where scripts/heavy.txt says so."""
    listing = next((file.text for file in files if file.path == "scripts/heavy.txt"), "")
    listed = {
        line.strip() for line in listing.split("\n") if line.strip() and not line.startswith("#")
    }
    findings, used = [], set()
    for file in cpp(files):
        for number, line in enumerate(file.lines, 1):
            found = HEAVY.match(line)
            if found and file.path in listed:
                used.add(file.path)
            elif found:
                findings.append(
                    Finding(
                        "heavy-include",
                        file.path,
                        number,
                        f"{found.group(1)} is a heavy header; list the file in scripts/heavy.txt or hide it",
                    )
                )
    findings += [
        Finding(
            "heavy-include", "scripts/heavy.txt", 1, f"{path} includes no heavy header (any more)"
        )
        for path in sorted(listed - used)
    ]
    return findings
