"""The run's context: how updates merge, and what a plugin sees of it.

`Layers` is a persistent map for a value that is replaced at every step: a base that many versions share and a small
overlay, so that a merge costs what changed and not what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

import msgspec

from bext_workflow.model.json import Json, JsonObject

_FOLD_AT = 64


class Layers(msgspec.Struct, frozen=True, gc=False):
    """An immutable object in two layers; `merged` returns the next version."""

    base: JsonObject = {}
    overlay: JsonObject = {}

    def merged(self, updates: JsonObject) -> Layers:
        """This map with `updates` over it, key by key (shallow: semantics §3)."""
        if not updates:
            return self
        overlay = {**self.overlay, **updates}
        if len(overlay) > _FOLD_AT:
            return Layers({**self.base, **overlay})
        return Layers(self.base, overlay)

    def get(self, key: str, default: Json = None) -> Json:
        if key in self.overlay:
            return self.overlay[key]
        return self.base.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.overlay or key in self.base

    def __iter__(self) -> Iterator[str]:
        yield from self.base
        yield from (key for key in self.overlay if key not in self.base)

    def __len__(self) -> int:
        return len(self.base) + sum(key not in self.base for key in self.overlay)

    def to_dict(self) -> JsonObject:
        """A new dict; what is nested in it is shared and not to be changed."""
        return {**self.base, **self.overlay}


class ContextView(Mapping[str, Json]):
    """The read-only context of one plugin call. A nested value is copied on first touch, so it is the plugin's own."""

    __slots__ = ("_layers", "_touched")

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._touched: JsonObject = {}

    def __getitem__(self, key: str) -> Json:
        touched = self._touched
        if key in touched:
            return touched[key]
        if key not in self._layers:
            raise KeyError(key)
        value = self._layers.get(key)
        if isinstance(value, dict | list):
            value = touched[key] = copy_json(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __setitem__(self, key: str, value: Json) -> NoReturn:
        raise TypeError(
            f"run.context is read-only: return StepOutcome.Continue(context_updates={{{key!r}: …}}) to change it"
        )

    def __delitem__(self, key: str) -> NoReturn:
        raise TypeError(f"run.context is read-only: a key cannot be removed; set {key!r} to None by context_updates")

    def __repr__(self) -> str:
        return f"ContextView({self.to_dict()!r})"

    def to_dict(self) -> JsonObject:
        """The whole context as a dict of the caller's own."""
        return {key: self[key] for key in self}


def copy_json(value: Json) -> Json:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
