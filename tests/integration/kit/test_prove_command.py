"""`bext-host prove`, in this process, over a config."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bext_workflow.__main__ import wiring
from bext_workflow.faces.cli.main import run
from tests.docs.pages import DOCS, ROOT, marked
from tests.unit.plugin_support import PLUGIN, Install, installer

CONFIG = str(ROOT / "bext.config.toml")

PROVEN = (
    PLUGIN.replace("import ", "import EffectLedger, Rehearsal, ", 1)
    + """
    def __init__(self, ledger=None):
        self.ledger = ledger

    @hookimpl
    def rehearse(self):
        ledger = EffectLedger()
        return Rehearsal(ledger=ledger, plugin=lambda: Plugin(ledger), contexts={"mug": {}})
"""
)

LEAVES = PROVEN.replace(
    "        return StepOutcome.Continue()",
    "        self.ledger.do(step_name, run.idempotency_key)\n        return StepOutcome.Continue()",
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path, monkeypatch)


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "bext.config.toml"
    file.write_text('[[plugins]]\nname = "shop"\n', encoding="utf-8")
    return str(file)


def prove(*words: str, config: str = CONFIG) -> int:
    return run(wiring, ["-c", config, "prove", *words])


def test_a_case_of_the_checkout_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert prove("checkout", "--replay", "order@charge_card=crash_after_effect", "-o", "table") == 0
    said = capfd.readouterr()
    assert "checkout@1 holds" in said.out
    assert "crash    the host dies" in said.out
    assert said.out.rstrip().endswith("durable  run compensated")


def test_a_case_as_data(capfd: pytest.CaptureFixture[str]) -> None:
    assert prove("checkout@1", "--replay", "declined", "-o", "json") == 0
    proof = json.loads(capfd.readouterr().out)
    assert (proof["workflow"], proof["broken"]) == ("checkout", [])
    assert proof["coverage"] == {
        "percent": 100,
        "effects": ["reserve_stock: reserve"],
        "undone": ["reserve_stock: reserve"],
        "stays": ["send"],
    }


@pytest.mark.tier("ci")
def test_the_proof_of_the_checkout_is_that_of_the_guide(capfd: pytest.CaptureFixture[str]) -> None:
    assert prove("checkout", "--fail-under", "100", "-o", "table") == 0
    shown = capfd.readouterr().out
    assert stable(shown) == stable(marked(DOCS / "testing.md", "proof: checkout"))


def stable(text: str) -> str:
    return re.sub(r"in \d+\.\d s", "in … s", text)


def test_what_is_left_behind_is_named_with_the_line_to_type(
    install: Install, config: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The overlay of the config holds for the proof as well."""
    install(LEAVES)
    assert prove("order", "-o", "table", config=config) == 3
    out = capfd.readouterr().out
    assert "left-behind: pack pack is done and not undone" in out
    assert "bext-host -c" in out
    assert "prove order --replay mug@" in out
    assert prove("order", "--replay", "mug@ship=cancel", config=config) == 3


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("cruise",), 4, "no plugin of the config serves a workflow 'cruise'"),
        (("order",), 2, "plugin 'shop' has no hook rehearse"),
        (("order@7", "--replay", "mug"), 2, "plugin 'shop' has no hook rehearse"),
    ],
)
def test_what_cannot_be_proven(
    words: tuple[str, ...],
    code: int,
    says: str,
    install: Install,
    config: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    install()
    assert prove(*words, config=config) == code
    assert says in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("checkout", "--replay", "order@x"), "'order@x' names no case"),
        (("checkout", "--replay", "nobody"), "no context 'nobody'"),
        (("checkout@9",), "serves no workflow 'checkout' in version 9"),
    ],
)
def test_a_mistake_on_the_command_line(words: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert prove(*words) == 2
    assert says in capfd.readouterr().err
