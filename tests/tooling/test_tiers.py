from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT_CONFTEST = Path(__file__).parents[2] / "conftest.py"

SUITE = """
import pytest

def test_fast(): pass

@pytest.mark.tier("ci")
def test_ci(): pass

@pytest.mark.tier("long")
class TestLong:
    def test_long(self): pass

    @pytest.mark.tier("ci")
    def test_nearer_mark_wins(self): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(ROOT_CONFTEST.read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\nmarkers = tier(name): the tier of a test")
    pytester.makepyfile(SUITE)
    return pytester


@pytest.mark.parametrize(
    ("arguments", "passed", "deselected"),
    [
        ((), 1, 3),
        (("--tier=fast",), 1, 3),
        (("--tier=ci",), 3, 1),
        (("--tier=long",), 4, 0),
    ],
)
def test_a_tier_includes_those_before_it_and_deselects_the_rest(
    suite: pytest.Pytester, arguments: tuple[str, ...], passed: int, deselected: int
) -> None:
    suite.runpytest_inprocess(*arguments).assert_outcomes(passed=passed, deselected=deselected)


@pytest.mark.parametrize("mark", ['tier("nightly")', "tier()", 'tier(name="ci")'])
def test_a_tier_that_does_not_exist_stops_the_run(suite: pytest.Pytester, mark: str) -> None:
    suite.makepyfile(f"import pytest\n\n@pytest.mark.{mark}\ndef test_lost(): pass")

    result = suite.runpytest_inprocess()

    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_lost*one of fast, ci, long*"])
