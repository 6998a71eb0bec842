"""What a plugin is proven with: fakes of the services that it calls, whose effects stand in one ledger.

A fake says `ledger.do(…)` where the service would act and `ledger.undo(…)` where it would take that back. The ledger is
as strict as a good service: one key acts once, and what comes after its own undo is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar

import msgspec

from bext_workflow.errors import WorkflowError
from bext_workflow.model.json import Json, JsonObject

PERFORMING: ContextVar[tuple[str, int]] = ContextVar("performing", default=("", 0))
"""Whose call of the plugin is under way: its site (`charge_card`, `charge_card:compensate`), and its number there."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a service did, the `n`-th of all. `undoes`: the key, or the id, of what it takes back.

    `site` and `call` say by which call of the plugin; outside of the prover they are empty and 0.
    """

    n: int
    what: str
    key: str
    id: str
    undoes: str | None = None
    details: JsonObject = {}
    site: str = ""
    call: int = 0

    def takes_back(self, other: Effect) -> bool:
        """Whether it is the undo of that one."""
        return self.what == other.what and self.undoes in (other.key, other.id)


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a ledger: each effect under the one heading that it belongs to, in the order in which it was done.

    `undone_twice` are undone as well. `nothing_undone`: the undos that found nothing.
    """

    standing: tuple[Effect, ...]
    undone: tuple[Effect, ...]
    undone_twice: tuple[Effect, ...]
    nothing_undone: tuple[Effect, ...]


class EffectLedger:
    """Takes down what fakes of services do. Safe to use from many threads.

    `stays`: the effects that nothing takes back, and that may stay behind a run that was undone, such as a mail.
    """

    def __init__(self, *, stays: Collection[str] = ()) -> None:
        self.stays = frozenset(stays)
        self._effects: list[Effect] = []
        self._lock = threading.Lock()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Everything, in order."""
        with self._lock:
            return tuple(self._effects)

    def do(self, what: str, key: str, **details: Json) -> str:
        """Acts, once for each key; returns the id of what was done. Raises `WorkflowError` once that is undone."""
        with self._lock:
            first = self._first(what, key)
            if self._is_undone(what, key, first):
                raise WorkflowError(f"{what} {key} has been undone")
            return (first or self._take_down(what, key, details=details)).id

    def undo(self, what: str, key: str, *, of: str | None = None) -> str:
        """Takes back what was done under the key, or with the id, `of`: of the step, if `key` is that of its undo.

        Acts once for each `key`, also where there is nothing to take back.
        """
        undoes = key.removesuffix(":compensate") if of is None else of
        with self._lock:
            for effect in self._effects:
                if effect.what == what and effect.key == key and effect.undoes is not None:
                    return effect.id
            return self._take_down(what, key, undoes=undoes).id

    def balance(self) -> Balance:
        """What has been done and not undone, and the rest."""
        effects = self.effects
        done = [effect for effect in effects if effect.undoes is None]
        undos = {effect.n: [other for other in effects if other.takes_back(effect)] for effect in done}
        found = {undo.n for of_one in undos.values() for undo in of_one}
        return Balance(
            standing=tuple(effect for effect in done if not undos[effect.n]),
            undone=tuple(effect for effect in done if undos[effect.n]),
            undone_twice=tuple(effect for effect in done if len(undos[effect.n]) > 1),
            nothing_undone=tuple(e for e in effects if e.undoes is not None and e.n not in found),
        )

    def _first(self, what: str, key: str) -> Effect | None:
        same = (effect for effect in self._effects if (effect.what, effect.key, effect.undoes) == (what, key, None))
        return next(same, None)

    def _is_undone(self, what: str, key: str, done: Effect | None) -> bool:
        names = {key} if done is None else {key, done.id}
        return any(effect.what == what and effect.undoes in names for effect in self._effects)

    def _take_down(self, what: str, key: str, undoes: str | None = None, details: JsonObject | None = None) -> Effect:
        site, call = PERFORMING.get()
        n = len(self._effects) + 1
        effect = Effect(
            n=n, what=what, key=key, id=f"{what}-{n}", undoes=undoes, details=details or {}, site=site, call=call
        )
        self._effects.append(effect)
        return effect


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """One stage set: fakes whose effects go to `ledger`, and a plugin over them. Everything in it is new each time.

    `plugin` makes the plugin anew, as a host does that starts; None: the plugin that was asked, as it is. `contexts`:
    what runs are started with, by name: one for each way through the workflow. `signals`: what is sent to a wait for
    the signal of that name; of an approval, the form. `close` is called when the run is over.
    """

    ledger: EffectLedger
    contexts: Mapping[str, JsonObject]
    plugin: Callable[[], object] | None = None
    signals: Mapping[str, Json] = {}
    close: Callable[[], None] | None = None
