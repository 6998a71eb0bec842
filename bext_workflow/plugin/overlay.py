"""Workflows that a config declares: definitions of its own, or overlays of a plugin's (semantics §10).

An entry holds only the keys that the config states, so that an overlay changes nothing else. How a step waits is graph:
an overlay may move its numbers and nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bext_workflow.errors import ConfigError, DefinitionError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.wait import ApprovalDefinition, WaitDefinition

_MAY_NOT_CHANGE_FROM: dict[str, bool] = {
    "idempotent": False,
    "transactional": False,
    "pivot": True,
    "compensate_on_failure": True,
}
"""What a plugin's author asserts about a step's effects; a config may only be stricter."""


OF_RUN_STEP: dict[str, Json] = {
    "retries": None,
    "retry_on": None,
    "idempotent": True,
    "transactional": False,
    "timeout_ms": None,
    "heartbeat_ms": None,
    "branches": None,
    "compensation_retries": None,
    "compensate_on_failure": False,
    "undo_idempotent": True,
    "pivot": False,
}
"""What says how the plugin's own code is called, and so nothing of a step that the host does; a flag may say this."""

_GRAPH_OF_A_WAIT = ("signal", "into", "on_timeout")


class StepEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that the config states of a step. The last three are tables, likewise as stated."""

    name: str
    stated: JsonObject = {}
    retries: JsonObject = {}
    compensation_retries: JsonObject = {}
    wait: JsonObject | None = None

    def says(self) -> JsonObject:
        """Every stated key but the name and the wait."""
        tables = {"retries": self.retries, "compensation_retries": self.compensation_retries}
        return self.stated | {key: table for key, table in tables.items() if table}


class WorkflowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A `[[plugins.workflows]]` table. `file` and `path` say where it stands, for messages."""

    id: str
    version: int = 1
    stated: JsonObject = {}
    steps: tuple[StepEntry, ...]
    file: str = ""
    path: str = ""

    def fault(self, reason: str, *, mend: str, under: str = "") -> ConfigError:
        """An error of this entry; `under` is the key path inside it, such as `.steps[2].pivot`."""
        return ConfigError(reason, file=self.file, path=self.path + under, mend=mend)


def define(entry: WorkflowEntry) -> WorkflowDefinition:
    """The definition that the entry is by itself: absent keys have the defaults. Raises `ConfigError`."""
    steps = tuple(_step(StepDefinition(name=step.name), step, entry, i) for i, step in enumerate(entry.steps))
    try:
        return WorkflowDefinition(id=entry.id, version=entry.version, steps=steps, **entry.stated)
    except DefinitionError as error:
        raise entry.fault(error.message, mend=error.mend) from None


def overlay(own: WorkflowDefinition, entry: WorkflowEntry) -> WorkflowDefinition:
    """The plugin's own definition with the entry's stated keys over it. Raises `ConfigError`."""
    theirs, ours = [step.name for step in entry.steps], [step.name for step in own.steps]
    if theirs != ours:
        raise entry.fault(
            f"the steps are {', '.join(theirs)}, but the plugin's own workflow {own.id!r} version {own.version} has "
            f"{', '.join(ours)}",
            mend="name the same steps in the same order, or choose another version for a workflow of your own",
            under=".steps",
        )
    base = tuple(_without_default_retry_on(step, own.retry_on) for step in own.steps)
    steps = tuple(_overlaid(step, of, entry, i) for i, (step, of) in enumerate(zip(base, entry.steps, strict=True)))
    try:
        return msgspec.structs.replace(own, **{**entry.stated, "steps": steps})
    except DefinitionError as error:
        raise entry.fault(error.message, mend=error.mend) from None


def _overlaid(own: StepDefinition, of: StepEntry, entry: WorkflowEntry, index: int) -> StepDefinition:
    for key, strict in _MAY_NOT_CHANGE_FROM.items():
        asserted: Json = getattr(own, key)
        if asserted is strict and of.stated.get(key, strict) is not strict:
            raise entry.fault(
                f"step {own.name!r} cannot loosen {key} from the plugin's {str(strict).lower()}",
                mend="leave the key out: only the plugin's author knows what the step does",
                under=f".steps[{index}].{key}",
            )
    for key, change in _changes_of_waiting(own, of):
        raise entry.fault(
            f"step {own.name!r} {change}",
            mend="leave the key out, or choose another version for a workflow of your own",
            under=f".steps[{index}].{key}",
        )
    return _step(own, of, entry, index)


def _changes_of_waiting(own: StepDefinition, of: StepEntry) -> Iterator[tuple[str, str]]:
    """Each (key, words) by which the entry would change what the plugin's own step waits for (semantics §10)."""
    if "sleep_ms" in of.stated and bool(of.stated["sleep_ms"]) != bool(own.sleep_ms):
        yield "sleep_ms", "sleeps in the plugin's own workflow" if own.sleep_ms else "is no sleep of the plugin's own"
    if of.stated.get("workflow", own.workflow) != own.workflow:
        yield (
            "workflow",
            f"runs {own.workflow!r}" if own.workflow else "is no sub-workflow in the plugin's own workflow",
        )
    if of.wait is None:
        return
    if own.wait is None:
        yield "wait", "is no wait of the plugin's own"
        return
    if of.wait.get("approval") is not None:
        if own.wait.approval is None:
            yield "wait.approval", "is no approval of the plugin's own"
        elif of.wait["approval"].get("on_reject", own.wait.approval.on_reject) != own.wait.approval.on_reject:
            yield "wait.approval.on_reject", f"goes to {own.wait.approval.on_reject!r} in the plugin's own workflow"
    for key in _GRAPH_OF_A_WAIT:
        ours: Json = getattr(own.wait, key)
        if of.wait.get(key, ours) != ours:
            yield f"wait.{key}", f"has {key} {'not set' if ours is None else repr(ours)} in the plugin's own workflow"


def _step(base: StepDefinition, of: StepEntry, entry: WorkflowEntry, index: int) -> StepDefinition:
    try:
        step = msgspec.structs.replace(
            base,
            **of.stated,
            retries=msgspec.structs.replace(base.retries, **of.retries),
            compensation_retries=msgspec.structs.replace(base.compensation_retries, **of.compensation_retries),
            wait=base.wait if of.wait is None else _wait(base, of.wait, entry, f".steps[{index}].wait"),
        )
    except DefinitionError as error:
        raise entry.fault(error.message, mend=error.mend, under=f".steps[{index}]") from None
    if step.hosted:
        _refuse_what_needs_code(of, entry, index)
    return step


def _wait(base: StepDefinition, stated: JsonObject, entry: WorkflowEntry, under: str) -> WaitDefinition:
    if base.wait is None and "signal" not in stated:
        raise entry.fault(
            "is missing", mend='name the signal that ends the wait: wait = { signal = "…" }', under=f"{under}.signal"
        )
    own = base.wait or WaitDefinition(signal=stated["signal"])
    if stated.get("approval") is not None:
        approval = msgspec.structs.replace(own.approval or ApprovalDefinition(), **stated["approval"])
        stated = stated | {"approval": approval}
    wait = msgspec.structs.replace(own, **stated)
    if wait.on_timeout is not None and wait.timeout_ms == 0:
        raise entry.fault(
            f"goes to {wait.on_timeout!r} when the time is over, and timeout_ms = 0 means that it never is",
            mend="state timeout_ms, or leave on_timeout out",
            under=f"{under}.on_timeout",
        )
    return wait


def _refuse_what_needs_code(of: StepEntry, entry: WorkflowEntry, index: int) -> None:
    for key, value in of.says().items():
        if key in OF_RUN_STEP and value is not OF_RUN_STEP[key]:
            raise entry.fault(
                f"step {of.name!r} is done by the host itself: no code is called that {key} could be about",
                mend="leave the key out; a wait is bounded by its own timeout_ms, a loop by max_visits",
                under=f".steps[{index}].{key}",
            )


def _without_default_retry_on(step: StepDefinition, default: tuple[str, ...]) -> StepDefinition:
    """Takes back the workflow's default, so that the overlaid workflow can give its own."""
    return msgspec.structs.replace(step, retry_on=None) if step.retry_on == default else step
