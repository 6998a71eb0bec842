"""Nothing in the documentation points to what is not there, and nothing in the code cites what is not written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, prose
from tests.docs.properties import GUARANTEES, rows

HERE = Path(__file__).resolve().parent
_SECTION = re.compile(r"semantics ((?:§\d+(?:, | and )?)+)")
_HEADING = re.compile(r"\b(architecture|reference) \"([^\"]+)\"", re.IGNORECASE)
_NOT_HERE = re.compile(
    r"\b(?:DESIGN|INTERFACES|SEMANTICS|PROPERTIES)\.md\b|\bDESIGN (?:§|\")|\bspec[,:] \"|engine text"
)
_PROPERTY = re.compile(r"(?<![\w–-])P(\d{1,2})(?![\w–-])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    dead = [link for link in links(page) if not link.startswith(("https://", "http://")) and not resolves(page, link)]
    assert dead == []


def sources() -> dict[str, str]:
    """The text of every Python file but these tests, by its path."""
    folders = ("bext_workflow", "plugins", "tests")
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files if file.parent != HERE}


def resolves(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, pending = set[Path](), [PAGES[0]]
    while pending:
        page = pending.pop()
        if page.suffix == ".md" and page not in reached:
            reached.add(page)
            pending += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "//" not in link]
    assert set(PAGES) - reached == set()


def test_every_section_that_code_cites_is_there() -> None:
    """`semantics §5` in a docstring is `## 5. …` on the page."""
    there = set(re.findall(r"^## (\d+)\. ", prose(DOCS / "semantics.md"), re.MULTILINE))
    cited = {
        (number, file)
        for file, text in sources().items()
        for sections in _SECTION.findall(text)
        for number in re.findall(r"\d+", sections)
    }
    assert there == {str(number) for number in range(1, 14)}
    assert [(number, file) for number, file in cited if number not in there] == []


def test_every_page_that_code_cites_is_here_and_has_the_heading() -> None:
    """`architecture "Commit path"` in a docstring is `## Commit path` on the page."""
    for file, text in sources().items():
        assert _NOT_HERE.findall(text) == [], file
        for page, heading in _HEADING.findall(text):
            assert re.search(f"^##+ {re.escape(heading)}$", prose(DOCS / f"{page.lower()}.md"), re.MULTILINE), file


def test_every_property_that_code_cites_is_stated() -> None:
    stated = {number for number, _, _ in rows(GUARANTEES.read_text(encoding="utf-8"))}
    unknown = {
        (number, file)
        for file, text in sources().items()
        for number in map(int, _PROPERTY.findall(text))
        if number not in stated
    }
    assert unknown == set()
