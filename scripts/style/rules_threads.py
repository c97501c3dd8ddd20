"""Rules on threads and memory order, and on what the hot path may not do."""

import re

from style.common import Finding, check, cpp, matches


@check("volatile")
def no_volatile(files):
    places = [file for file in cpp(files) if not file.name.startswith("mlx5_")]
    return matches(
        "volatile",
        places,
        r"(?<!asm )(?<!__asm__ )\bvolatile\b",
        "no volatile between threads; device memory is mlx5's business",
    )


@check("fence")
def fences(files):
    owners = ("dataplane/base/ordering.h", "mlx5_barrier.h")
    places = [file for file in cpp(files, source_only=True) if not file.path.endswith(owners)]
    return matches(
        "fence",
        places,
        r"atomic_(thread|signal)_fence|_mm_[slm]fence|__sync_synchronize|\bdmb\b",
        "fences are in base/ordering.h (CPU) and mlx5_barrier.h (device) only",
    )


def call_arguments(code, opening):
    """The text between the parenthesis at `opening` and its partner."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return code[opening + 1 : at]
    return code[opening + 1 :]


@check("atomic-order")
def atomic_order(files):
    """Calls on names that are declared as atomics anywhere in the tree; operators on members of the same file."""
    declaration = re.compile(
        r"std::atomic(?:_ref)?<[^;{}()]*?>+[&*]*\s+(\w+)\s*[;{=,)(\[]|std::atomic_flag\s+(\w+)"
    )
    call = re.compile(
        r"(\w+)(?:\[[^\]]*\])?(?:\.value)?\s*(?:\.|->)\s*(load|store|exchange|fetch_\w+|compare_exchange_\w+|"
        r"test_and_set|wait)\s*(\()"
    )
    names = {
        file.path: {name for pair in declaration.findall(file.code) for name in pair if name}
        for file in cpp(files)
    }
    everywhere = set().union(*names.values()) if names else set()
    findings = []
    for file in cpp(files):
        for found in call.finditer(file.code):
            if found.group(1) in everywhere and "memory_order" not in call_arguments(
                file.code, found.start(3)
            ):
                findings.append(
                    Finding(
                        "atomic-order",
                        file.path,
                        file.line_of(found.start()),
                        f"{found.group(1)}.{found.group(2)} names no memory order",
                    )
                )
        for name in {name for name in names[file.path] if name.endswith("_")}:
            for found in re.finditer(
                rf"(?:\+\+|--){name}\b|(?<![\w.*&>]\s)(?<![\w.>])\b{name}\s*(?:\+\+|--|[+\-|&^]?=(?!=))",
                file.code,
            ):
                findings.append(
                    Finding(
                        "atomic-order",
                        file.path,
                        file.line_of(found.start()),
                        f"operator on {name}: write the call with its order",
                    )
                )
    return findings


def comments(text):
    """The comments of a text as one line, so that a sentence may go over several."""
    return " ".join(found.group(1) for found in re.finditer(r"///?<? ?(.*)", text))


@check("order-label")
def order_label(files):
    """An order above relaxed stands beside a comment with its label, and the label's partner exists."""
    order = re.compile(r"memory_order(?:_|::)(acquire|release|acq_rel|seq_cst)")
    label = re.compile(r"\b[A-Z]{1,3}\d{1,2}\b")
    definition = re.compile(r"\b([A-Z]{1,3}\d{1,2}) (?:acquire|release|acq_rel|seq_cst|relaxed)\b")
    findings, defined = [], set()
    sources = cpp(files, source_only=True)
    for file in sources:
        defined.update(definition.findall(comments(file.text)))
    for file in sources:
        for number, line in enumerate(file.code_lines, 1):
            if not order.search(line):
                continue
            near = comments("\n".join(file.lines[max(0, number - 6) : number + 2]))
            if not label.search(near):
                message = "acquire or release without a label: // R1 acquire: meets W1"
                findings.append(Finding("order-label", file.path, number, message))
            for partner in re.findall(r"meets ([A-Z]{1,3}\d{1,2})\b", near):
                if partner not in defined:
                    message = f"no comment has the partner {partner}"
                    findings.append(Finding("order-label", file.path, number, message))
    return findings


HOT_FILES = re.compile(r"_datapath\.cc$|/rail_\w+_impl\.h$|^dataplane/queue/")
HOT_WORDS = re.compile(
    r"\bvirtual\b|std::function\b|std::(?:unordered_)?map\b|std::string\b|\bmutex\b|\bnew\b(?!\s*\()"
)


@check("hot-path")
def hot_path(files):
    findings = []
    for file in cpp(files):
        if not HOT_FILES.search(file.path):
            continue
        for number, line in enumerate(file.code_lines, 1):
            found = HOT_WORDS.search(line)
            if found and not line.lstrip().startswith("#include"):
                findings.append(
                    Finding(
                        "hot-path",
                        file.path,
                        number,
                        f"`{found.group(0)}` has no place on the hot path",
                    )
                )
    return findings


@check("thread-line")
def thread_line(files):
    """The comment above a class of a header says which thread owns it."""
    opening = re.compile(
        r"^class (?:\[\[\w+\]\] |PC_\w+(?:\([^)]*\))? |alignas\(\w+\) )*(\w+)[^;]*$"
    )
    findings = []
    for file in cpp(files, source_only=True):
        if not file.is_header:
            continue
        for number, line in enumerate(file.code_lines, 1):
            found = opening.match(line)
            if not found:
                continue
            comment, at = "", number - 2
            while at >= 0 and re.match(
                r"\s*(///|//|template|requires|\s+requires)", file.lines[at]
            ):
                comment = file.lines[at] + comment
                at -= 1
            if "THREAD" not in comment:
                findings.append(
                    Finding(
                        "thread-line",
                        file.path,
                        number,
                        f"class {found.group(1)} has no THREAD line",
                        found.group(1),
                    )
                )
    return findings
