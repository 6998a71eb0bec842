"""The pages of the documentation, and what stands in them: blocks of code, tables, headings, links, inline code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (
    README,
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
)

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[a-z]+: \S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A fenced block. `mark` is the comment before it, such as `run: success`: what a test does with it."""

    page: Path
    language: str
    mark: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [
        Block(page, found["language"], found["mark"] or "", found["text"])
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def marked(page: Path, mark: str) -> str:
    """The text of the one block of the page with that mark."""
    (block,) = (block for block in blocks(page) if block.mark == mark)
    return block.text


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def inline_code(page: Path) -> list[str]:
    return _INLINE.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What `#…` may name in the page: its headings, written as code hosts write them."""
    return {_anchor(heading) for heading in _HEADING.findall(prose(page))}


def table_after(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table after a heading, cell by cell, without its head."""
    _, found, rest = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    assert found, f"{page.name} has no heading {heading!r}"
    return [_cells(line) for line in _table_lines(rest)][2:]


def codes(cell: str) -> set[str]:
    """The inline code in a cell."""
    return set(_INLINE.findall(cell))


def _table_lines(text: str) -> Iterator[str]:
    seen = False
    for line in text.splitlines():
        if line.startswith("|"):
            seen = True
            yield line
        elif seen:
            return


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
