from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from bext_workflow.faces.cli.lazy import Lazy, LazyGroup
from bext_workflow.faces.cli.options import GLOBALS
from bext_workflow.faces.cli.tree import root

HEAVY = {"pydantic", "pluggy", "structlog", "fastapi", "httpx", "rich", "anyio", "uvicorn", "sqlite3"}

REPORT_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep="\\n", file=sys.stderr))
sys.argv = ["bext-host", *sys.argv[1:]]
from bext_workflow.__main__ import main
sys.exit(main())
"""


def leaves(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Lazy]]:
    for name, child in group.children.items():
        if isinstance(child, Lazy):
            yield (*path, name), child
        else:
            yield from leaves(child, (*path, name))


LEAVES = dict(leaves(root))


@pytest.mark.parametrize("words", [["--help"], ["runs", "--help"], ["--version"], ["run", "-h"]])
def test_help_loads_nothing_that_takes_time(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", REPORT_MODULES, *words], capture_output=True, text=True, check=True)

    loaded = set(done.stderr.split())
    assert done.stdout
    assert "bext_workflow.faces.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_loads_and_is_listed_with_its_own_words(path: tuple[str, ...]) -> None:
    command = LEAVES[path].load()

    assert command.name == path[-1]
    assert command.help is not None
    assert command.help.startswith(LEAVES[path].help.removesuffix("."))


@pytest.mark.parametrize("option", GLOBALS, ids=lambda option: option.name)
def test_every_global_option_has_a_variable_that_the_help_names(option: click.Option) -> None:
    assert option.envvar == f"BEXT_{option.name.upper()}"
    assert f"env var:BEXT_{option.name.upper()}" in "".join(root.get_help(click.Context(root)).split()).replace(
        "envvar", "env var"
    )
