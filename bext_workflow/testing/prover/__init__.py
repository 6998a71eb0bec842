"""The prover: every step of a saga meets every fault, and what is left behind is looked at."""

from __future__ import annotations

from bext_workflow.testing.prover.proving import prove

__all__ = ["prove"]
