"""Every example of the testing guide runs as it is written."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest

from bext_workflow.testing import harness
from tests.docs.pages import DOCS, blocks

GUIDE = DOCS / "testing.md"
NAMES: dict[str, object] = {}
for _block in blocks(GUIDE):
    if _block.language == "python":
        exec(compile(_block.text, str(GUIDE), "exec"), NAMES)

EXAMPLES = [value for name, value in NAMES.items() if name.startswith("test_") and inspect.isfunction(value)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_the_examples_of_the_testing_guide(example: Callable[..., object]) -> None:
    given = {"harness": harness} if "harness" in inspect.signature(example).parameters else {}
    made = example(**given)
    if inspect.iscoroutine(made):
        asyncio.run(made)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
