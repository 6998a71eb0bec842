"""What became of one case: all that the judge looks at."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.status import Call, IncidentKind
from bext_workflow.plugin.rehearsal import Effect
from bext_workflow.testing.history import History
from bext_workflow.testing.prover.faults import Case, Choice


def step_name(site: str) -> str:
    """The name of the step in a site."""
    return site.rpartition("/")[2].partition(":")[0].partition("#")[0].partition("[")[0]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the plugin that was made, the `number`-th of its site; `at` counts what happened, in order."""

    at: int
    site: str
    kind: Call
    step: str
    visit: int
    number: int


class Durable(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the run under proof that has become durable; `site`: of the visit that it is about, or empty."""

    at: int
    kind: str
    site: str


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that a person's answer closed."""

    kind: IncidentKind
    step: str
    action: str


class Chosen(msgspec.Struct, frozen=True):
    """A point where the run could have gone other ways, and the way that it took."""

    taken: Choice
    others: tuple[str, ...]


PROMISES = {
    "left-behind": "what was done is undone when the run is, or stands in what the run says that it leaves in place",
    "done-twice": "a step does what it does once, however often it is called",
    "undone-twice": "what is undone is undone once, however often the undo is called",
    "undone": "what was done stands when the run has COMPLETED",
    "undone-without-done": "the undo of a step that completed finds what that step has done",
    "raises": "the plugin raises only what the host can act upon: a `WorkflowError`, a time-out, what `retry_on` names",
    "context-mutated": "`run.context` is read",
    "repeated": "no step, and no undo, is called again after its checkpoint",
    "order": "what completed last is undone first",
    "status": "the run ends as the fault demands: as if it had not been, or undone",
    "completion": "`on_workflow_complete` is called for every ending, after that is durable",
    "never-ends": "the run comes to its end, with no more help than one answer to each incident",
}
"""What holds of every case, by the name under which the prover says that it is broken."""


class Wrong(msgspec.Struct, frozen=True):
    """A promise that is broken, and by which call, or step; empty: by the run as a whole."""

    promise: str
    where: str
    message: str


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One case, played to its end. `wrongs`: what the plugin did that it must never do, where it was seen.

    `children`: the workflows of the plugin, by id. `cancelled`: a cancel was accepted. `story` tells it line by line.
    """

    case: Case
    definition: WorkflowDefinition
    children: Mapping[str, WorkflowDefinition]
    notifies: bool
    stuck: bool
    cancelled: bool
    history: History
    calls: tuple[Made, ...]
    durable: tuple[Durable, ...]
    effects: tuple[Effect, ...]
    stays: frozenset[str]
    answered: tuple[Answered, ...]
    waits: tuple[str, ...]
    chosen: tuple[Chosen, ...]
    wrongs: tuple[Wrong, ...]
    story: tuple[str, ...]

    def sites(self, kind: Call) -> list[str]:
        """The sites of the calls of that kind, each once, in order."""
        return list(dict.fromkeys(made.site for made in self.calls if made.kind is kind))

    def workflow_of(self, site: str) -> WorkflowDefinition:
        """Whose call it is."""
        workflow, child, _ = site.partition("/")
        return self.children[workflow] if child else self.definition

    def step_of(self, site: str) -> StepDefinition | None:
        """The step of `ship[2]#3:compensate`, or of `shipping/pack`; None for a call of `on_workflow_complete`."""
        return self.workflow_of(site).by_name.get(step_name(site))

    @property
    def trail(self) -> tuple[str, ...]:
        """The steps that were called, which is the way through the workflow."""
        ways = (f"{chosen.taken}" for chosen in self.chosen)
        return (*self.sites(Call.STEP), *ways)
