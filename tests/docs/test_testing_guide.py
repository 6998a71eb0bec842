"""Every example of the testing guide runs as it is written, and shows what the page says."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable

import pytest

from bext_workflow import testing
from bext_workflow.testing import harness
from bext_workflow.testing.prover.faults import FAULTS, MEANINGS, ON_WAIT, FaultKind
from bext_workflow.testing.prover.played import PROMISES
from tests.docs.pages import DOCS, ROOT, blocks, codes, marked, table_after

GUIDE = DOCS / "testing.md"
NAMES: dict[str, object] = {}
for _block in blocks(GUIDE):
    if _block.language == "python":
        exec(compile(_block.text, str(GUIDE), "exec"), NAMES)

EXAMPLES = [value for name, value in NAMES.items() if name.startswith("test_") and inspect.isfunction(value)]

SHOWN = {"test_nothing_is_left_behind": "holds", "test_a_mistake_is_found": "forgetful"}


LONG = "test_nothing_is_left_behind"
"""It plays some ninety runs."""


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, id=one.__name__, marks=[pytest.mark.tier("ci")] if one.__name__ == LONG else [])
        for one in EXAMPLES
    ],
)
def test_the_examples_of_the_testing_guide(example: Callable[..., object], capsys: pytest.CaptureFixture[str]) -> None:
    given = {"harness": harness} if "harness" in inspect.signature(example).parameters else {}
    made = example(**given)
    if inspect.iscoroutine(made):
        asyncio.run(made)
    if example.__name__ in SHOWN:
        assert stable(capsys.readouterr().out) == stable(marked(GUIDE, f"proof: {SHOWN[example.__name__]}"))


def stable(text: str) -> str:
    """How long it took is another time another matter."""
    return re.sub(r"in \d+\.\d s", "in … s", text)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7
    assert set(SHOWN) <= {example.__name__ for example in EXAMPLES}


def test_everything_in_the_kit_stands_in_the_guide() -> None:
    told = {code for cells in table_after(GUIDE, "## What is in the kit") for code in codes(cells[0])}
    assert told == set(testing.__all__)


def test_every_fault_stands_in_the_guide() -> None:
    told = {code: cells for cells in table_after(GUIDE, "### What can happen") for code in codes(cells[0])}
    assert {name: cells[1] for name, cells in told.items()} == {kind.value: MEANINGS[kind] for kind in FaultKind}
    words = {"step": "steps", "undo": "undos", "complete": "`on_workflow_complete`"}
    for kind in FaultKind:
        at = [words[call] for call, kinds in FAULTS.items() if kind in kinds]
        assert told[kind][2] == ", ".join([*at, *(["waits"] if kind in ON_WAIT else [])])


def test_every_promise_stands_in_the_guide_and_is_kept_an_eye_on() -> None:
    told = {codes(cells[0]).pop(): cells[1] for cells in table_after(GUIDE, "### What must hold")}
    assert told == PROMISES
    sources = (ROOT / "bext_workflow" / "testing" / "prover").glob("*.py")
    judged = {name for file in sources for name in re.findall(r'Wrong\(\s*"([a-z-]+)"', file.read_text("utf-8"))}
    assert judged == set(PROMISES)
