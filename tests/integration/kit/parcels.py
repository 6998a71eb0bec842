"""A plugin with every kind of way: a choice, an approval, a map, a fork, a race and its loser, a pivot, a child."""

from __future__ import annotations

from bext_workflow import (
    ApprovalDefinition,
    JoinDefinition,
    MapDefinition,
    StepDefinition,
    StepOutcome,
    WaitDefinition,
    WorkflowDefinition,
    WorkflowError,
    WorkflowRun,
    hookimpl,
)
from bext_workflow.plugin.rehearsal import EffectLedger, Rehearsal

DAY_MS = 86_400_000


CHOICE = WorkflowDefinition(
    id="choice",
    steps=(
        StepDefinition(name="pick", next="air", branches=("sea",), compensate_on_failure=True),
        StepDefinition(name="air", next="ask", compensate_on_failure=True),
        StepDefinition(name="sea", next="ask", compensate_on_failure=True),
        StepDefinition(
            name="ask",
            wait=WaitDefinition(
                signal="agreed",
                timeout_ms=3 * DAY_MS,
                on_timeout="later",
                schema={"type": "object", "required": ["cents"]},
                approval=ApprovalDefinition(by=("ann",)),
            ),
            next="deliver",
        ),
        StepDefinition(name="deliver", next="end", compensate_on_failure=True),
        StepDefinition(name="later", compensate_on_failure=True),
    ),
)

FORK = WorkflowDefinition(
    id="fork",
    steps=(
        StepDefinition(name="open", next=("left", "right"), join=JoinDefinition(at="each"), compensate_on_failure=True),
        StepDefinition(name="left", compensate_on_failure=True, next="each"),
        StepDefinition(name="right", compensate_on_failure=True, next="each"),
        StepDefinition(
            name="each",
            map=MapDefinition(over="parcels", at="ship", join="close", collect="shipped"),
            compensate_on_failure=True,
        ),
        StepDefinition(name="ship", compensate_on_failure=True),
        StepDefinition(name="close", compensate_on_failure=True),
    ),
)


RACE = WorkflowDefinition(
    id="race",
    steps=(
        StepDefinition(
            name="open",
            next=("left", "right"),
            join=JoinDefinition(at="close", need="any"),
            compensate_on_failure=True,
        ),
        StepDefinition(name="left", compensate_on_failure=True, next="close"),
        StepDefinition(name="right", compensate_on_failure=True, next="close"),
        StepDefinition(name="close", compensate_on_failure=True),
    ),
)

PIVOT = WorkflowDefinition(
    id="pivot",
    steps=(
        StepDefinition(name="open", compensate_on_failure=True),
        StepDefinition(name="ship", compensate_on_failure=True, idempotent=False, pivot=True),
        StepDefinition(name="close", compensate_on_failure=True),
    ),
)

PARENT = WorkflowDefinition(
    id="parent",
    steps=(
        StepDefinition(name="open", compensate_on_failure=True),
        StepDefinition(name="send", workflow="child"),
        StepDefinition(name="close", compensate_on_failure=True),
    ),
)

CHILD = WorkflowDefinition(
    id="child",
    steps=(
        StepDefinition(name="left", compensate_on_failure=True),
        StepDefinition(name="right", compensate_on_failure=True),
    ),
)

SERVED = [CHOICE, FORK, RACE, PIVOT, PARENT, CHILD]


class Parcels:
    """Every step has one effect, under its own name, and takes it back."""

    def __init__(self, ledger: EffectLedger) -> None:
        self.ledger = ledger

    @hookimpl
    def name(self) -> str:
        return "parcels"

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return SERVED

    @hookimpl
    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        if all(step_name not in own.by_name for own in SERVED):
            raise WorkflowError.step_not_found(step_name)
        self.ledger.do(step_name, run.idempotency_key)
        return StepOutcome.Continue(next="air" if step_name == "pick" else None)

    @hookimpl
    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.ledger.undo(step_name, run.idempotency_key)

    @hookimpl
    async def on_workflow_complete(self, run: WorkflowRun) -> None:
        self.ledger.do("report", run.idempotency_key)


def rehearse(workflow: str) -> Rehearsal:
    """Without contexts for the ways that the plugin never takes by itself."""
    ledger = EffectLedger()
    return Rehearsal(
        ledger=ledger,
        plugin=lambda: Parcels(ledger),
        contexts={"two": {"parcels": ["a", "b"]}},
        signals={"agreed": {"cents": 1}},
    )
