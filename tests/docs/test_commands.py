"""No page mentions a command, or an option of one, that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bext_workflow.faces.cli.lazy import LazyGroup
from bext_workflow.faces.cli.options import GLOBALS
from bext_workflow.faces.cli.tree import PROGRAM, root
from docs.generate import commands
from tests.docs.pages import PAGES, ROOT, blocks, inline_code

GROUPS = [name for name, child in root.children.items() if isinstance(child, LazyGroup)]
SHELLS = ("bash", "console")
WITH_VALUE = {
    flag for option in GLOBALS if isinstance(option, click.Option) and not option.is_flag for flag in option.opts
}


def fault(line: str) -> str | None:
    """Why a line that calls the program cannot be meant; None if it can."""
    words = shlex.split(line, comments=True)
    words = words[words.index(PROGRAM) + 1 :]
    at: click.Command = root
    flags = {flag for option in [*root.params, *GLOBALS] for flag in option.opts}
    while words:
        word = words.pop(0)
        if word.startswith("-") and word != "-":
            flag = word.partition("=")[0]
            if flag not in flags | {"-h", "--help"}:
                return f"{at.name} has no option {flag}"
            if flag in WITH_VALUE and "=" not in word:
                words = words[1:]
        elif isinstance(at, LazyGroup):
            found = at.get_command(click.Context(at), word)
            if found is None:
                return f"{at.name} has no command {word}"
            at = found
            flags |= {flag for option in at.params for flag in option.opts}
    return None


def mentioned(page: Path) -> Iterator[str]:
    """Every call of the program in the page, in blocks and in the text; `runs show` in the text is one too."""
    for block in blocks(page):
        if block.language in SHELLS:
            yield from (line for line in block.text.replace("\\\n", " ").splitlines() if f"{PROGRAM} " in line)
    for code in inline_code(page):
        first, _, rest = code.partition(" ")
        if first == PROGRAM or f" {PROGRAM} " in code:
            yield code
        elif first in (*GROUPS, "serve", "init", "check", "demo", "run") and re.match(r"[a-z-]", rest):
            yield f"{PROGRAM} {code}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_mentions_exists(page: Path) -> None:
    assert [f"{line}: {fault(line)}" for line in mentioned(page) if fault(line)] == []


def test_every_command_is_mentioned_outside_the_reference() -> None:
    """A guide, not only a table, knows it."""
    told = [line for page in PAGES if page.name != "reference.md" for line in mentioned(page)]
    missing = [" ".join(words) for words, _ in commands(root) if not any(" ".join(words) in line for line in told)]
    assert missing == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("uv run bext-host runs start checkout --wait", None),
        ("bext-host -c other.toml serve --degraded", None),
        ("bext-host runs prune RUN", "runs has no command prune"),
        ("bext-host runs cancel RUN --force", "cancel has no option --force"),
        ("bext-host dance checkout", "bext-host has no command dance"),
    ],
)
def test_what_is_found(line: str, why: str | None) -> None:
    assert fault(line) == why
