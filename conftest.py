"""Test tiers for every suite of the workspace: `fast` (the default), `ci`, `long`, each with those before it.

`@pytest.mark.tier("ci")` puts a test, a class or (`pytestmark`) a module into a tier; the closest mark wins,
and a test without one is fast. What a run leaves out is reported as deselected.
"""

from __future__ import annotations

import os

import pytest

# A width that a terminal has, or a runner's worker, is not what output for a pipe is to be folded to.
os.environ.pop("COLUMNS", None)

TIERS = ("fast", "ci", "long")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=TIERS,
        default=TIERS[0],
        help="run the tests up to this tier (default: %(default)s)",
    )


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {config.getoption('tier')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = TIERS.index(config.getoption("tier"))
    beyond = [item for item in items if TIERS.index(_tier_of(item)) > chosen]
    if beyond:
        config.hook.pytest_deselected(items=beyond)
        left_out = set(beyond)
        items[:] = [item for item in items if item not in left_out]


def _tier_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("tier")
    if mark is None:
        return TIERS[0]
    match mark.args:
        case (str(tier),) if tier in TIERS and not mark.kwargs:
            return tier
    raise pytest.UsageError(f'{item.nodeid}: write @pytest.mark.tier("…") with one of {", ".join(TIERS)}')
