"""Which property (P1–P50) is named by which tests, and which by none.

python tests/docs/properties.py             list the ids of this stage that no test names; exit 1 if there is one
python tests/docs/properties.py --write     write the tests' files into the table of docs/guarantees.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.md"
SUITES = ("tests", "plugins", "bext_workflow/testing")

STAGE = range(1, 51)
"""Those that hosts reach so far, on both stores."""

_ID = re.compile(r"(?<![A-Za-z0-9])[Pp]([0-9]{1,2})(?:[–-]P([0-9]{1,2}))?(?![A-Za-z0-9])")
"""`P7`, the range `P8–P20`, and `p7` in the name of a test."""

_ROW = re.compile(r"^\| P(\d+) \| (.+) \| (.*) \|$")


def main(arguments: Sequence[str]) -> int:
    named = by_property()
    if "--write" in arguments:
        GUARANTEES.write_text(renewed(GUARANTEES.read_text(encoding="utf-8"), named), encoding="utf-8")
    missing = [f"P{number}" for number in STAGE if number not in named]
    if missing:
        sys.stdout.write(f"no test names {', '.join(missing)}\n")
    return int(bool(missing))


@cache
def by_property() -> Mapping[int, set[str]]:
    """The files, relative to the root, with a test that names each property."""
    named: dict[int, set[str]] = defaultdict(set)
    for suite in SUITES:
        for file in sorted((ROOT / suite).rglob("*.py")):
            if file.parent != Path(__file__).resolve().parent:
                for number in named_in(file.read_text(encoding="utf-8")):
                    named[number].add(file.relative_to(ROOT).as_posix())
    return named


def named_in(source: str) -> set[int]:
    """The properties in the name or the docstring of a test, or of the class or module that it stands in."""
    module = ast.parse(source)
    words = [" ".join(_words_of(test, around)) for test, around in _tests(module)]
    return {
        number
        for text in words
        for first, last in _ID.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def rows(text: str) -> Iterator[tuple[int, str, str]]:
    """The (number, statement, tests) of the table's rows."""
    for line in text.splitlines():
        row = _ROW.match(line)
        if row:
            yield int(row[1]), row[2], row[3]


def renewed(text: str, named: Mapping[int, set[str]]) -> str:
    """The text with the files of the tests in the last column."""

    def renew(line: str) -> str:
        row = _ROW.match(line)
        if row is None:
            return line
        files = ", ".join(f"[{Path(file).stem}](../{file})" for file in sorted(named.get(int(row[1]), ())))
        return f"| P{row[1]} | {row[2]} | {files or '–'} |"

    return "".join(f"{renew(line)}\n" for line in text.splitlines())


def _tests(module: ast.Module) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield from ((inner, (node, module)) for inner in node.body if _is_test(inner))
        elif _is_test(node):
            yield node, (module,)


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _words_of(test: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[str]:
    if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
        yield test.name
        yield ast.get_docstring(test) or ""
    for node in around:
        if isinstance(node, ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
