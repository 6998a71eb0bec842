"""Approvals, schemas and wait tokens over a real store (semantics §9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict, Gone, InvalidJson, NotAllowed, NotFound, UsageError
from bext_workflow.model.access import ANONYMOUS, Caller, person
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import ApprovalView, Decision
from bext_workflow.model.wait import ApprovalDefinition, NotBy, WaitDefinition
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.tokens import TokenRow
from bext_workflow.service.access import caller_of
from bext_workflow.service.approvals import ApprovalService
from bext_workflow.service.protocols import CompleteRequest, DecideRequest, SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, Desk, desk, hosting, jumping, saga, step, workflow

DAY_MS = 86_400_000

FORM: JsonObject = {"type": "object", "required": ["budget"], "properties": {"budget": {"type": "integer"}}}


def approval(*, schema: JsonObject | None = None, on_timeout: str | None = None, **fields: Json) -> StepDefinition:
    wait = WaitDefinition(
        signal="approved",
        timeout_ms=3 * DAY_MS,
        on_timeout=on_timeout,
        schema=schema,
        approval=ApprovalDefinition(title="May we hire?", **fields),
    )
    return step("ask", wait=wait)


def hiring(**fields: Json) -> WorkflowDefinition:
    return workflow("account", approval(**fields), step("welcome", next="end"), "board")


def office(at: Desk, by: str = "bob") -> ApprovalService:
    """As `by` stands before it; the runs are started by ann."""
    at.service._who = lambda: person(by)
    return ApprovalService(store=at.store, service=at.service, clock=at.clock, who=lambda: person(by))


async def open_of(at: Desk) -> list[ApprovalView]:
    return list((await office(at).approvals()).items)


async def asked(at: Desk) -> str:
    """A run that waits for its decision."""
    run_id = await at.start()
    await at.reaches(run_id, WorkflowStatus.WAITING)
    return run_id


# Decisions


async def test_a_decision_over_a_restart_a_day_later(tmp_path: Path) -> None:
    clock, calls = FakeClock(), Calls()
    async with hosting(saga(calls, hiring()), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await asked(hosted)
        hosted.dies()
    clock.advance(DAY_MS)
    async with hosting(saga(calls, hiring()), tmp_path / "bext.db", clock=clock) as hosted:
        (found,) = await open_of(hosted)
        assert (found.id, found.title, found.step) == (f"{run_id}:ask", "May we hire?", "ask")
        await office(hosted).decide(run_id[:13], DecideRequest(approved=True, comment="as agreed"))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert await open_of(hosted) == []
        (closed,) = (await office(hosted).approvals(open_only=False)).items

    assert closed.resolution == Decision(how="approved", by="bob", comment="as agreed")
    assert isinstance(run.context, dict)
    assert run.context["approved"] | {"at": ""} == {
        "approved": True,
        "by": "bob",
        "at": "",
        "comment": "as agreed",
        "form": None,
    }


async def test_a_no_compensates() -> None:
    calls = Calls()
    async with hosting(saga(calls, hiring())) as hosted:
        run_id = await asked(hosted)
        await office(hosted).decide(f"{run_id}:ask", DecideRequest(approved=False, comment="no budget"))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
        (closed,) = (await office(hosted).approvals(run_id=run_id, open_only=False)).items

    assert run.failure == "rejected by bob: no budget"
    assert closed.resolution == Decision(how="rejected", by="bob", comment="no budget")
    assert calls.made == ["account", "undo_account"]


async def test_who_may_decide() -> None:
    fields = {"by": ("bob", "ann"), "not_by": NotBy.STARTER}
    async with hosting(saga(Calls(), hiring(**fields))) as hosted:
        run_id = await asked(hosted)
        yes = DecideRequest(approved=True)
        with pytest.raises(NotAllowed, match="ann started the run"):
            await office(hosted, "ann").decide(run_id, yes)
        with pytest.raises(NotAllowed, match="eve may not decide this"):
            await office(hosted, "eve").decide(run_id, yes)
        await office(hosted, "bob").decide(run_id, yes)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_the_form_is_checked_at_the_door() -> None:
    async with hosting(saga(Calls(), hiring(schema=FORM))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(InvalidJson, match=r"\$\.payload\.budget: '12' is not of type 'integer'"):
            await office(hosted).decide(run_id, DecideRequest(approved=True, form={"budget": "12"}))
        assert await hosted.status(run_id) is WorkflowStatus.WAITING
        await office(hosted).decide(run_id, DecideRequest(approved=True, form={"budget": 12}))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_a_decision_comes_once_and_a_signal_never_decides() -> None:
    async with hosting(saga(Calls(), hiring())) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(Conflict, match="'approved' is a decision, and no signal"):
            await hosted.service.signal(run_id, SignalRequest(name="approved"))
        await office(hosted).decide(run_id, DecideRequest(approved=True))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        with pytest.raises(Gone, match="is over"):
            await office(hosted).decide(run_id, DecideRequest(approved=True))
        with pytest.raises(NotFound, match="no approval"):
            await office(hosted).decide("f", DecideRequest(approved=True))


async def test_the_id_of_an_approval_that_is_over_decides_no_later_one() -> None:
    """§9: an old approval must not approve the second request. `RUN:ask` is how `RUN:ask#2` begins."""
    async with hosting(saga(Calls(), workflow("draft", approval(on_reject="draft"), "welcome"))) as hosted:
        run_id = await asked(hosted)
        await office(hosted).decide(f"{run_id}:ask", DecideRequest(approved=False))
        await hosted.until_kind(run_id, "wait_opened", 2)
        with pytest.raises(Gone, match=f"{run_id}:ask is over"):
            await office(hosted).decide(f"{run_id}:ask", DecideRequest(approved=True))
        await office(hosted).decide(run_id, DecideRequest(approved=True))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_a_whole_id_names_one_approval_though_others_begin_with_it() -> None:
    asks = [
        step(name, next="pack", wait=WaitDefinition(signal=name, approval=ApprovalDefinition()))
        for name in ("ask", "ask_the_board", "ask_the_law")
    ]
    split = step("split", next=("ask", "ask_the_board", "ask_the_law"), join=JoinDefinition(at="pack"))
    async with hosting(saga(Calls(), workflow(split, *asks, "pack"))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(Conflict, match="more than one open approval"):
            await office(hosted).decide(f"{run_id}:as", DecideRequest(approved=True))
        for name in ("ask", "ask_the_law"):
            await office(hosted).decide(f"{run_id}:{name}", DecideRequest(approved=True, comment=name))
        await hosted.until_kind(run_id, "wait_ended", 2)
        with pytest.raises(Gone, match=f"{run_id}:ask is over"):
            await office(hosted).decide(f"{run_id}:ask", DecideRequest(approved=True))
        await office(hosted).decide(run_id, DecideRequest(approved=True, comment="ask_the_board"))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert isinstance(run.context, dict)
    assert [run.context[one.name]["comment"] for one in asks] == [one.name for one in asks]


async def test_a_reminder_and_then_the_edge_of_the_time_out() -> None:
    """P21: once each, in order, while a host is there."""
    clock, calls = FakeClock(), Calls()
    definition = hiring(remind_ms=DAY_MS, on_timeout="board")
    async with jumping(saga(calls, definition), clock) as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        kinds = await hosted.kinds(run_id)
        (closed,) = (await office(hosted).approvals(open_only=False)).items
        reminded = hosted.telemetry.all(names.APPROVAL_REMINDED)

    assert kinds.count("wait_reminded") == len(reminded) == 1
    assert calls.made == ["account", "board"]
    assert closed.resolution == Decision(how="timeout")


async def test_a_stop_closes_what_was_asked() -> None:
    async with hosting(saga(Calls(), hiring())) as hosted:
        run_id = await asked(hosted)
        await hosted.cancel(run_id)
        await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
        (closed,) = (await office(hosted).approvals(open_only=False)).items
    assert closed.resolution == Decision(how="stopped")


async def test_the_run_says_that_it_waits_for_a_decision() -> None:
    async with hosting(saga(Calls(), hiring())) as hosted:
        run = await hosted.get(await asked(hosted))
        assert isinstance(run.waits, list)
        assert [wait.approval for wait in run.waits] == [f"{run.run_id}:ask"]


# Tokens


async def test_a_token_that_was_mailed_before_decides_once() -> None:
    tokens = []

    def mail(run: WorkflowRun) -> StepOutcome.Continue:
        tokens.append(run.wait_token_for("ask"))
        return StepOutcome.Continue()

    async with hosting(saga(Calls(account=[mail]), hiring(by=("bob",)))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(UsageError, match="waits for a decision"):
            await office(hosted, "eve").complete(tokens[0], CompleteRequest())
        await office(hosted, "eve").complete(tokens[0], CompleteRequest(approved=True))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        with pytest.raises(Gone):
            await office(hosted).complete(tokens[0], CompleteRequest(approved=True))
    assert isinstance(run.context, dict)
    assert run.context["approved"]["by"] == "wait-token"


async def test_a_token_works_before_its_wait_is_durable_and_is_the_same_for_every_attempt(tmp_path: Path) -> None:
    tokens: list[str] = []

    async def ask(run: WorkflowRun) -> StepOutcome.Wait:
        tokens.append(run.wait_token)
        if len(tokens) == 1:
            async with desk(saga(Calls()), tmp_path / "bext.db") as mailed:
                await office(mailed).complete(tokens[0], CompleteRequest(payload={"paid": 12}))
            raise TimeoutError
        return StepOutcome.Wait(signal="paid")

    calls = Calls(pack=[ask, ask])
    async with hosting(saga(calls), tmp_path / "bext.db") as hosted:
        run = await hosted.settled(await hosted.start())
    assert run.status is WorkflowStatus.COMPLETED
    assert run.context == {"paid": {"paid": 12}}
    assert tokens[0] == tokens[1]


async def test_a_token_is_for_the_next_visit_of_its_step_and_an_old_one_decides_nothing() -> None:
    """§9: an old approval must not approve the second request."""
    tokens: list[str] = []

    def draft(run: WorkflowRun) -> StepOutcome.Continue:
        tokens.append(run.wait_token_for("ask"))
        return StepOutcome.Continue()

    definition = workflow("draft", approval(on_reject="draft"), "welcome")
    async with hosting(saga(Calls(draft=[draft, draft]), definition)) as hosted:
        run_id = await asked(hosted)
        await office(hosted).complete(tokens[0], CompleteRequest(approved=False))
        await hosted.until_kind(run_id, "wait_opened", 2)
        with pytest.raises(Gone):
            await office(hosted).complete(tokens[0], CompleteRequest(approved=True))
        await office(hosted).complete(tokens[1], CompleteRequest(approved=True))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_a_token_that_an_item_of_a_map_mails_is_for_its_own_wait() -> None:
    tokens: dict[int | None, str] = {}

    def mail(run: WorkflowRun) -> StepOutcome.Continue:
        tokens[run.index] = run.wait_token_for("ask")
        return StepOutcome.Continue()

    each = step("split", map=MapDefinition(over="parcels", at="mail", join="pack", collect="said"))
    definition = workflow(each, step("mail", next="ask"), replace(approval(), next="pack"), "pack")
    async with hosting(saga(Calls(mail=[mail, mail]), definition)) as hosted:
        run_id = await hosted.start(parcels=["a", "b"])
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
        await office(hosted).complete(tokens[1], CompleteRequest(approved=True, comment="b"))
        await office(hosted).complete(tokens[0], CompleteRequest(approved=True, comment="a"))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert isinstance(run.context, dict)
    assert [said["approved"]["comment"] for said in run.context["said"]] == ["a", "b"]


async def test_a_token_that_nobody_made_is_not_found() -> None:
    tokens = []

    def mail(run: WorkflowRun) -> StepOutcome.Continue:
        tokens.append(run.wait_token_for("ask"))
        return StepOutcome.Continue()

    async with hosting(saga(Calls(account=[mail]), hiring())) as hosted:
        await asked(hosted)
        named, _, signed = tokens[0].partition(".")
        for forged in (f"{named}.{signed[:-2]}AA", f"{named[:-2]}AA.{signed}", "x", "", f"{named}.", "ä.ö"):
            with pytest.raises(NotFound, match="no wait with this token"):
                await office(hosted).complete(forged, CompleteRequest(approved=True))


async def test_a_token_of_a_step_that_there_is_not_fails_the_step_that_asks() -> None:
    calls = Calls(account=[lambda run: run.wait_token_for("nowhere")])
    async with hosting(saga(calls, hiring())) as hosted:
        run = await hosted.settled(await hosted.start())
    assert run.failure is not None
    assert "workflow 'order' has no step 'nowhere'" in run.failure


async def test_a_plain_wait_takes_no_decision() -> None:
    tokens = []

    def ask(run: WorkflowRun) -> StepOutcome.Wait:
        tokens.append(run.wait_token)
        return StepOutcome.Wait(signal="paid")

    async with hosting(saga(Calls(pack=[ask]))) as hosted:
        await asked(hosted)
        with pytest.raises(UsageError, match="waits for no decision"):
            await office(hosted).complete(tokens[0], CompleteRequest(approved=True))


# Schemas


async def test_a_signal_satisfies_the_schema_of_the_waits_for_it() -> None:
    """§9: at the door, and before the run waits for it, too."""
    wait = step("ask", wait=WaitDefinition(signal="budget", schema=FORM))
    async with hosting(saga(Calls(), workflow(wait))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(InvalidJson, match=r"\$\.payload: 'budget' is a required property"):
            await hosted.service.signal(run_id, SignalRequest(name="budget", payload={}))
        await hosted.service.signal(run_id, SignalRequest(name="other", payload={}))
        await hosted.service.signal(run_id, SignalRequest(name="budget", payload={"budget": 3}))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert run.context == {"budget": {"budget": 3}}


# Who somebody is


def holder(name: str, *roles: str, scope: str = "signal:order") -> Caller:
    return caller_of(
        TokenRow(id="t", name=name, digest="d", scopes=(scope,), roles=roles, created_at=0, created_by="ada")
    )


def office_of(at: Desk, caller: Caller) -> ApprovalService:
    at.service._who = lambda: caller
    return ApprovalService(store=at.store, service=at.service, clock=at.clock, who=lambda: caller)


@pytest.mark.parametrize("named", ["bob", "token:bob", "finance"])
async def test_who_holds_a_token_decides_by_its_name_or_a_role(named: str) -> None:
    async with hosting(saga(Calls(), hiring(by=(named,)))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(NotAllowed, match="token:eve may not decide"):
            await office_of(hosted, holder("eve", "sales")).decide(run_id, DecideRequest(approved=True))
        with pytest.raises(NotAllowed, match="lacks the scope 'signal:order'"):
            await office_of(hosted, holder("bob", scope="signal:other")).decide(run_id, DecideRequest(approved=True))

        await office_of(hosted, holder("bob", "finance")).decide(run_id, DecideRequest(approved=True))
        run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert isinstance(run.context, dict)
        assert run.context["approved"]["by"] == "token:bob"


async def test_who_started_a_run_is_the_same_person_with_a_token_and_without() -> None:
    async with hosting(saga(Calls(), hiring(not_by=NotBy.STARTER))) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(NotAllowed, match="token:ann started the run"):
            await office_of(hosted, holder("ann")).decide(run_id, DecideRequest(approved=True))
        await office_of(hosted, holder("bob")).decide(run_id, DecideRequest(approved=True))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_nobody_decides_of_whom_nobody_knows_who_it_is() -> None:
    async with hosting(saga(Calls(), hiring())) as hosted:
        run_id = await asked(hosted)
        with pytest.raises(NotAllowed, match="nobody knows who decides"):
            await office_of(hosted, ANONYMOUS).decide(run_id, DecideRequest(approved=True))
