"""Workflows that a config declares: definitions of its own, or overlays of a plugin's (semantics §10).

An entry holds only the keys that the config states, so that an overlay changes nothing else.
"""

from __future__ import annotations

import msgspec

from bext_workflow.errors import ConfigError, DefinitionError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.json import Json, JsonObject

_MAY_NOT_CHANGE_FROM: dict[str, bool] = {"idempotent": False, "pivot": True, "compensate_on_failure": True}
"""What a plugin's author asserts about a step's effects; a config may only be stricter."""


class StepEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that the config states of a step. The last two are tables of a retry policy, likewise as stated."""

    name: str
    stated: JsonObject = {}
    retries: JsonObject = {}
    compensation_retries: JsonObject = {}


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
    return _step(own, of, entry, index)


def _step(base: StepDefinition, of: StepEntry, entry: WorkflowEntry, index: int) -> StepDefinition:
    try:
        return msgspec.structs.replace(
            base,
            **of.stated,
            retries=msgspec.structs.replace(base.retries, **of.retries),
            compensation_retries=msgspec.structs.replace(base.compensation_retries, **of.compensation_retries),
        )
    except DefinitionError as error:
        raise entry.fault(error.message, mend=error.mend, under=f".steps[{index}]") from None


def _without_default_retry_on(step: StepDefinition, default: tuple[str, ...]) -> StepDefinition:
    """Takes back the workflow's default, so that the overlaid workflow can give its own."""
    return msgspec.structs.replace(step, retry_on=None) if step.retry_on == default else step
