"""Figures and how they are shown: what was measured, beside what is wanted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from bext_workflow.model.json import JsonObject


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured thing. `target` is in words; `met` is None where there is none."""

    name: str
    values: tuple[float, ...]
    unit: str
    target: str = ""
    met: bool | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def plain(self) -> JsonObject:
        return {"name": self.name, "unit": self.unit, "median": self.median, "values": list(self.values)}


def at_least(name: str, values: Sequence[float], unit: str, bound: float) -> Figure:
    """A figure that should not be below `bound`."""
    met = statistics.median(values) >= bound
    return Figure(name=name, values=tuple(values), unit=unit, target=f"≥ {bound:g}", met=met)


def at_most(name: str, values: Sequence[float], unit: str, bound: float) -> Figure:
    """A figure that should not be above `bound`."""
    met = statistics.median(values) <= bound
    return Figure(name=name, values=tuple(values), unit=unit, target=f"≤ {bound:g}", met=met)


def plain(name: str, values: Sequence[float], unit: str) -> Figure:
    """A figure for scale."""
    return Figure(name=name, values=tuple(values), unit=unit)


def show(figures: Sequence[Figure]) -> None:
    """Prints the table: median, range, target."""
    table = Table("figure", "median", "range", "unit", "target", "")
    for one in figures:
        verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[one.met]
        table.add_row(
            one.name,
            f"{one.median:,.4g}",
            f"{min(one.values):,.4g}–{max(one.values):,.4g}",
            one.unit,
            one.target,
            verdict,
        )
    Console().print(table)
