"""What is shipped for the authors of plugins and stores, to test with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bext_workflow.testing.contract import StoreContract

__all__ = ["StoreContract"]

_HOME = {"StoreContract": "contract"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Here, because the contract needs pytest, and pytest must know of it first to explain its assertions.
    import_module("pytest").register_assert_rewrite(f"{__name__}.contract")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
