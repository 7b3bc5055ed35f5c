#!/usr/bin/env python3
"""The rules of STYLE.md that no formatter or compiler checks: layers, sizes, banned words, docs.

Prints `path:line: error: what, what to do` for each breach and ends with exit code 1 if any.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Set

ROOT = Path(__file__).resolve().parent.parent
LINE_CHARS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
# Jobs of users as they may be written: nobody keeps our width.
JOBS = ("tests/e2e/", "tests/cluster/matrix/cases/")

# (pattern, what to use instead), in C++ sources.
BANNED = [
    (r"\bstd::views\b", "an algorithm or a loop (clang 14 does not compile it)"),
    (r"#include <format>", "fmt"),
    (r"\bstd::expected\b", "Result"),
    (r"\bsource_location\b", "__FILE__ and __LINE__"),
    (r"\bthrow\b(?!\(\))", "Status"),
    (r"\b(?<!_)exit\(", "a returned exit code"),
    (r"\bsleep_for\b", "a condition or poll() with a limit"),
]
# Lines that end in `{` and begin something else than a function.
NO_FUNCTION = re.compile(
    r"^\s*(template <.*> )?(namespace|struct|class|enum|union|if|for|while|switch|else|do)\b"
)


class Breach(NamedTuple):
    path: str
    line: int
    what: str


def tracked() -> List[str]:
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    return [name for name in sorted(set(out.splitlines())) if (ROOT / name).is_file()]


def module_deps() -> Dict[str, Set[str]]:
    """The arrows: DEPS of each paramedic_module() in src/*/CMakeLists.txt, transitively closed."""
    deps: Dict[str, Set[str]] = {}
    for path in sorted((ROOT / "src").glob("*/CMakeLists.txt")):
        text = path.read_text()
        for block in re.findall(r"paramedic_module\((.*?)\n?\)", text, re.S):
            name = re.search(r"NAME\s+(\w+)", block)
            found = re.search(r"DEPS\s+((?:[a-z_]+\s*)+)", block)
            if name:
                deps.setdefault(name.group(1), set()).update(
                    found.group(1).split() if found else []
                )
    changed = True
    while changed:
        changed = False
        for direct in deps.values():
            wider = direct.union(*(deps.get(d, set()) for d in direct))
            if wider != direct:
                direct |= wider
                changed = True
    return deps


def check_includes(name: str, lines: List[str], deps: Dict[str, Set[str]]) -> Iterator[Breach]:
    module = name.split("/")[1]
    allowed = deps.get(module, set()) | {module}
    for number, line in enumerate(lines, 1):
        found = re.match(r'#include "([a-z_]+)/', line)
        if found and (ROOT / "src" / found.group(1)).is_dir() and found.group(1) not in allowed:
            arrows = ", ".join(sorted(allowed))
            yield Breach(name, number, f"{module} may not include {found.group(1)} ({arrows})")
        if re.match(r"#include <(arrow|parquet)/", line) and not (
            module == "store"
            and (name.endswith(".cc") or "arrow" in name)
            or re.match(r"src/nodes/(flight_\w+|bucket_arrow)\.cc$", name)
        ):
            where = "src/store/*.cc and src/nodes/{flight_*,bucket_arrow}.cc"
            yield Breach(name, number, f"Arrow headers belong in {where} only")


def cpp_function_lengths(lines: List[str]) -> "Iterator[tuple[int, int]]":
    """(first line, lines) of what looks like a function body by clang-format's layout: a line that
    ends in `{` with a `(` in its statement and is closed by a `}` at the same indentation."""
    for start, line in enumerate(lines):
        if not re.match(r"^(  )?[\w~].*\{$", line) or line.lstrip().startswith("//"):
            continue
        if "(" not in " ".join(lines[max(0, start - 3) : start + 1]) or NO_FUNCTION.match(line):
            continue
        indent = len(line) - len(line.lstrip())
        for end in range(start + 1, len(lines)):
            if lines[end].startswith(" " * indent + "}"):
                yield start + 1, end - start + 1
                break


def check_cpp(name: str, lines: List[str], deps: Dict[str, Set[str]]) -> Iterator[Breach]:
    if name.startswith("src/"):
        yield from check_includes(name, lines, deps)
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
        for pattern, instead in BANNED:
            if re.search(pattern, code):
                yield Breach(name, number, f"{pattern} is banned, use {instead}")
        if name.endswith(".h") and "using namespace" in code:
            yield Breach(name, number, "no `using namespace` in a header")
    if name.endswith(".h") and "probe.h" not in name and "#pragma once" not in lines[:2]:
        yield Breach(name, 1, "a header begins with #pragma once")
    for first, length in cpp_function_lengths(lines):
        if length > FUNCTION_LINES_MAX:
            yield Breach(name, first, f"function of {length} lines, limit {FUNCTION_LINES_MAX}")


def check_python(name: str, text: str) -> Iterator[Breach]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield Breach(name, node.lineno, f"function {node.name} of {length} lines")


def check_markdown(name: str, text: str) -> Iterator[Breach]:
    outside_code = re.sub(r"```.*?```", "", text, flags=re.S)
    titles = re.findall(r"^# ", outside_code, re.M)
    if len(titles) != 1:
        yield Breach(name, 1, f"one top title a page, found {len(titles)}")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", outside_code):
        if "://" not in target and not ((ROOT / name).parent / target).exists():
            yield Breach(name, 1, f"link to {target}, which does not exist")


def check_any(name: str, lines: List[str]) -> Iterator[Breach]:
    limit_lines = name.endswith((".cc", ".h", ".py", ".ts")) and not name.startswith(JOBS)
    for number, line in enumerate(lines, 1):
        # In a patch the space of an empty line counts.
        as_it_is = name.startswith("tests/golden/") or name.endswith(".patch")
        if line != line.rstrip() and not as_it_is:
            yield Breach(name, number, "trailing space")
        if limit_lines and len(line) > LINE_CHARS_MAX:
            yield Breach(name, number, f"line of {len(line)} characters, limit {LINE_CHARS_MAX}")
        is_source = name.endswith((".cc", ".h", ".py")) and name != "tools/tidy.py"
        if is_source and re.search(r"\bTODO(?!\(#\d+\))|\bFIXME\b", line):
            yield Breach(name, number, "TODO without an issue: TODO(#12)")
    if limit_lines and len(lines) > FILE_LINES_MAX:
        yield Breach(name, 1, f"file of {len(lines)} lines, limit {FILE_LINES_MAX}")


def check_tree(names: List[str]) -> Iterator[Breach]:
    """What spans files: the architecture page, the goldens of rules, what git ignores."""
    ignored = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    out = subprocess.run(ignored, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    for name in out.splitlines()[:1]:
        yield Breach(name, 1, "is ignored and yet tracked: git rm -r --cached")
    version = (ROOT / "VERSION").read_text().strip()
    if f'__version__ = "{version}"' not in (ROOT / "python/paramedic/__init__.py").read_text():
        yield Breach("VERSION", 1, f"python/paramedic/__init__.py is not of version {version}")
    page = (ROOT / "ARCHITECTURE.md").read_text()
    for folder in sorted({n.split("/")[1] for n in names if re.match(r"src/\w+/", n)}):
        if f"src/{folder}" not in page:
            yield Breach("ARCHITECTURE.md", 1, f"src/{folder} is missing in the table of folders")
    for name in (n for n in names if n.endswith("list.inc")):
        entries = re.findall(r"^X\((\w+)\)", (ROOT / name).read_text(), re.M)
        for entry in entries if name == "src/rules/builtin/list.inc" else []:
            cases = [n for n in names if n.startswith(f"tests/golden/rules/{entry}/")]
            for kind in ("fires", "quiet"):
                if not any(Path(case).name.startswith(kind) for case in cases):
                    yield Breach(name, 1, f"rule {entry} has no golden case {kind}*.txt")


def main() -> int:
    names, deps = tracked(), module_deps()
    breaches = list(check_tree(names))
    for name in names:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = text.splitlines()
        if name == "LICENSE":
            continue
        breaches += check_any(name, lines)
        if name.endswith((".cc", ".h")):
            breaches += check_cpp(name, lines, deps)
        elif name.endswith(".py"):
            breaches += check_python(name, text)
        elif name.endswith(".md"):
            breaches += check_markdown(name, text)
    for breach in breaches:
        print(f"{breach.path}:{breach.line}: error: {breach.what}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
