"""What is shipped for the authors of plugins and stores, to test with."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bext_workflow.testing.clock import FakeClock
    from bext_workflow.testing.contract import SharedStoreContract, StoreContract, TellingStoreContract
    from bext_workflow.testing.history import History
    from bext_workflow.testing.hosted import Harness, harness
    from bext_workflow.testing.prover import prove
    from bext_workflow.testing.scripts import hang

__all__ = [
    "FakeClock",
    "Harness",
    "History",
    "SharedStoreContract",
    "StoreContract",
    "TellingStoreContract",
    "hang",
    "harness",
    "prove",
]

_HOME = {
    "FakeClock": "clock",
    "SharedStoreContract": "contract",
    "StoreContract": "contract",
    "TellingStoreContract": "contract",
    "Harness": "hosted",
    "History": "history",
    "hang": "scripts",
    "harness": "hosted",
    "prove": "prover",
}

if "pytest" in sys.modules:
    import pytest

    # pytest explains the assertions of a module only if it is told before the module is imported.
    pytest.register_assert_rewrite(f"{__name__}.contract")


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
