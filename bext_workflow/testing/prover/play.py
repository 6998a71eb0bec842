"""One case, played on a real host from its start to its end, with the hosts that die in between."""

from __future__ import annotations

from functools import partial

import anyio
import msgspec

from bext_workflow.core.state import State, visit_name
from bext_workflow.errors import BextError, UsageError
from bext_workflow.faces.cli.journal import detail, step_of, words
from bext_workflow.model.access import person
from bext_workflow.model.json import loads
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import EventView, IncidentView, RunView, WaitView, instant
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Registry, Served, serving
from bext_workflow.plugin.rehearsal import Rehearsal
from bext_workflow.ports.store import Append, Loaded, Member
from bext_workflow.service.acting import folded
from bext_workflow.service.approvals import ApprovalService
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.protocols import (
    CancelRequest,
    DecideRequest,
    ResolveRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
from bext_workflow.service.service import Service
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.history import history_of
from bext_workflow.testing.prover.faults import Case, Choice, FaultKind
from bext_workflow.testing.prover.played import Answered, Chosen, Durable, Played
from bext_workflow.testing.prover.stand_in import StandIn
from bext_workflow.testing.prover.store import Checkpoint, ProofStore
from bext_workflow.testing.prover.subject import Subject
from bext_workflow.testing.scripts import real
from bext_workflow.testing.stage import DEADLINE_S, Stage, stage

_CONTEXT_BYTES = 1_048_576

_PREFERRED = (Action.FAIL_UNDO, Action.RETRY, Action.NOT_DONE, Action.FAIL, Action.DONE)
"""What a person answers: undo it whatever it did, or try again."""

SIGNAL, TIMEOUT, REJECT = "signal", "timeout", "reject"
"""The ways out of a wait."""


async def play(subject: Subject, case: Case) -> Played:
    """Plays one case. Raises `UsageError` for one that the workflow does not have."""
    with subject.rehearsal() as rehearsal:
        return await _Play(subject, case, rehearsal).play()


class _Play:
    """Plays one case, once."""

    def __init__(self, subject: Subject, case: Case, rehearsal: Rehearsal) -> None:
        self._subject = subject
        self._case = case
        self._rehearsal = rehearsal
        self._clock = FakeClock()
        self._store = ProofStore(self._clock, self._told)
        self._stand_in = StandIn(case, subject, rehearsal.ledger, self, self._tell)
        self._story: list[str] = []
        self._durable: list[tuple[int, EventView]] = []
        self._answered: list[Answered] = []
        self._waits: dict[tuple[str, str, int], str] = {}
        self._on: Stage | None = None
        self._rid = 0
        self._run_id = ""

    async def play(self) -> Played:
        if self._rehearsal.ledger.effects:
            raise UsageError(
                "the rehearsal's ledger has been used before", mend="make a new one at each call of rehearse"
            )
        registry = self._registry()
        served = self._subject.served(registry)
        contexts = self._rehearsal.contexts
        if self._case.path.context not in contexts:
            raise UsageError(
                f"the rehearsal has no context {self._case.path.context!r}", mend=f"there are: {', '.join(contexts)}"
            )
        async with stage(registry, self._store) as on:
            self._on = on
            start = StartRequest(
                workflow=served.definition.id,
                version=served.definition.version,
                context=contexts[self._case.path.context],
            )
            self._run_id = (await self._service().start(start)).run.run_id
            stuck = False
            with on.passing():
                try:
                    with anyio.fail_after(DEADLINE_S):
                        await self._conduct(on)
                        self._store.conclude_all()
                        for late in self._stand_in.late:
                            await late.wait()
                except TimeoutError:
                    stuck = True
            return await self._played(on, served, stuck=stuck)

    # What calls may do to the run

    def die(self) -> None:
        self._store.crash()

    def die_at(self, checkpoint: Checkpoint, *, durable: bool) -> None:
        self._store.die_at(checkpoint, durable=durable)

    async def cancel(self, run_id: str, *, now: bool) -> None:
        await self._service().cancel(run_id, CancelRequest(reason="the prover cancels", now=now))

    async def be_superseded(self, checkpoint: Checkpoint) -> None:
        on = self._stage()
        self._tell("takeover another host takes the run over")
        await on.enter(self._registry())
        await self._store.concluded(checkpoint)

    async def real(self, hook: Hook, run: WorkflowRun, *step: str) -> object:
        return await real(hook, self._clock, run, *step)

    # The conductor

    async def _conduct(self, on: Stage) -> None:
        while True:
            since = self._store.writes
            await self._store.until(self._stops)
            if self._store.crashed:
                self._tell("crash    the host dies")
                self._store.crashed = False
                await on.crash()
                self._tell("restart  another host takes over")
                await on.enter(self._registry())
                continue
            if await self._answer_incident():
                continue
            run = await self._service().get(self._run_id)
            if run.status.terminal or run.status is WorkflowStatus.SUSPENDED:
                return
            if not await self._answer_wait():
                await self._store.written_since(since)

    async def _stops(self) -> bool:
        """Whether it is the conductor's turn."""
        if self._store.crashed:
            return True
        return await self._store.stands_still(self._rid) and not _notice_is_due(await self._store.look(self._rid))

    async def _answer_incident(self) -> bool:
        """Answers an incident, as a person would; none of a kind twice at a step."""
        incidents = (await self._service().incidents()).items
        answered = {(answer.kind, answer.step) for answer in self._answered}
        # The oldest first: what a child has come to is what its parent's incident is about.
        incident = next((one for one in reversed(incidents) if (one.kind, one.step) not in answered), None)
        if incident is None:
            return False
        action = self._action(incident)
        self._tell(f"answer   {incident.kind} of {incident.step or 'the run'}: {action}")
        self._stand_in.disarm()
        self._answered.append(Answered(kind=incident.kind, step=incident.step, action=action))
        await self._service().resolve(incident.id, ResolveRequest(action=action, note="the prover answers"))
        return True

    def _action(self, incident: IncidentView) -> Action:
        if incident.kind is IncidentKind.IN_DOUBT and incident.call is Call.UNDO:
            return Action.NOT_DONE if self._stands(incident) else Action.DONE
        return next(action for action in (*_PREFERRED, *incident.actions) if action in incident.actions)

    def _stands(self, incident: IncidentView) -> bool:
        """Whether a person who looks finds that nothing was undone."""
        site = (incident.idempotency_key or "").removeprefix(f"{incident.run_id}:").removesuffix(":compensate")
        return any(effect.site == site for effect in self._rehearsal.ledger.balance().standing)

    async def _answer_wait(self) -> bool:
        """Sends what a wait waits for, unless the case lets its time run out; whether something was sent."""
        for summary in (await self._service().list(RunQuery(status=(WorkflowStatus.WAITING,)))).items:
            run = await self._service().get(summary.run_id)
            for wait in run.waits or []:
                if (run.run_id, wait.step, wait.visit) not in self._waits:
                    return await self._wait(run, wait)
        return False

    async def _wait(self, run: RunView, wait: WaitView) -> bool:
        """Lets happen what the case says of a wait that is new."""
        site = visit_name(wait.step, wait.visit)
        site = site if run.workflow == self._subject.workflow else f"{run.workflow}/{site}"
        self._waits[run.run_id, wait.step, wait.visit] = f"{site}:wait"
        match self._stand_in.fault_at(f"{site}:wait"):
            case FaultKind.CANCEL:
                await self._stand_in.cancel(run.run_id, now=False)
                return True
            case FaultKind.CRASH_BEFORE_CHECKPOINT | FaultKind.CRASH_AFTER_CHECKPOINT as kind:
                durable = kind is FaultKind.CRASH_AFTER_CHECKPOINT
                self._store.die_at(Checkpoint(step=wait.step, visit=wait.visit), durable=durable)
            case _:
                pass
        return wait.signal is not None and await self._send(run, wait, wait.signal, site)

    async def _send(self, run: RunView, wait: WaitView, signal: str, site: str) -> bool:
        ways = [SIGNAL, *([TIMEOUT] if wait.due_at else []), *([REJECT] if wait.approval else [])]
        taken = self._stand_in.way_of(site) or SIGNAL
        self._stand_in.chosen.append(Chosen(Choice(site, taken), tuple(way for way in ways if way != taken)))
        self._tell(f"wait     {site}: {taken}")
        if taken == TIMEOUT:
            return False
        payload = self._rehearsal.signals.get(signal)
        try:
            if wait.approval is not None:
                await self._decide(wait.approval, DecideRequest(approved=taken == SIGNAL, form=payload))
            else:
                await self._service().signal(run.run_id, SignalRequest(name=signal, payload=payload))
        except BextError as error:
            raise UsageError(
                f"{site} does not take what is sent: {error.message}", mend=f"give the rehearsal signals[{signal!r}]"
            ) from error
        return True

    async def _decide(self, approval: str, request: DecideRequest) -> None:
        """As the first of those who may."""
        step = approval.partition(":")[2].partition("#")[0].partition("[")[0]
        wait = next(
            one.definition.by_name[step].wait
            for one in self._stage().registry.served.values()
            if step in one.definition.by_name
        )
        by = wait.approval.by if wait is not None and wait.approval is not None else ()
        who = partial(person, by[0] if by else "the prover's approver")
        service = ApprovalService(store=self._store, service=self._service(), clock=self._clock, who=who)
        request = request if request.approved else msgspec.structs.replace(request, form=None)
        await service.decide(approval, request)

    # What is taken down

    def _tell(self, line: str) -> int:
        self._story.append(line)
        return len(self._story)

    def _told(self, member: Member, rid: int) -> None:
        if not isinstance(member, Append) and not self._rid:
            self._rid = rid
        for kind, data in member.events:
            event = EventView(seq=0, at=instant(member.at), kind=kind, data=loads(data))
            parts = (words(event), step_of(event), detail(event))
            at = self._tell(f"durable  {'  '.join(part for part in parts if part)}")
            if rid == self._rid:
                self._durable.append((at, event))

    async def _played(self, on: Stage, served: Served, *, stuck: bool) -> Played:
        run = await self._service().get(self._run_id)
        loaded = await self._store.look(self._rid)
        incidents = (await self._service().incidents()).items
        ledger, stand_in = self._rehearsal.ledger, self._stand_in
        plan = on.host.plans.plan_of_served(on.host.plans.serves(run.workflow, run.version))
        return Played(
            case=self._case,
            definition=served.definition,
            children={own.id: own for own in served.plugin.definitions},
            notifies=served.plugin.on_workflow_complete is not None,
            stuck=stuck,
            cancelled=stand_in.cancelled,
            history=history_of(plan, loaded.events, run, incidents),
            calls=tuple(stand_in.calls),
            durable=tuple(_durable(at, event, folded(plan, loaded)) for at, event in self._durable),
            effects=ledger.effects,
            stays=ledger.stays,
            answered=tuple(self._answered),
            waits=tuple(dict.fromkeys(self._waits.values())),
            chosen=tuple(stand_in.chosen),
            wrongs=tuple(stand_in.wrongs),
            story=tuple(self._story),
        )

    def _registry(self) -> Registry:
        """What a host loads that starts now."""
        return serving([self._stand_in.before(self._subject.load(self._rehearsal))])

    def _service(self) -> Service:
        on = self._stage()
        return Service(
            store=self._store,
            engine=on.host,
            catalog=Catalog(on.registry),
            clock=self._clock,
            chance=on.chance,
            context_bytes=_CONTEXT_BYTES,
            who=partial(person, "prover"),
        )

    def _stage(self) -> Stage:
        if self._on is None:
            raise RuntimeError("the play has not begun")
        return self._on


def _durable(at: int, event: EventView, state: State) -> Durable:
    """The event, as of the end, when it is known where each branch stood."""
    step, visit, branch = event.data.get("step"), event.data.get("visit", 1), event.data.get("branch", 0)
    # A step of the host's own completes when its wait is over.
    completes = event.kind == "wait_ended" and event.data.get("completes")
    return Durable(
        at=at,
        kind="step_completed" if completes else event.kind,
        site=visit_name(step, visit, state.places.get(str(branch), "")) if step else "",
    )


def _notice_is_due(loaded: Loaded) -> bool:
    """Whether `on_workflow_complete` is still to be called."""
    due = 0
    for row in loaded.events:
        if row.kind in ("run_completed", "run_compensated", "run_failed", "run_cancelled"):
            due += bool(loads(row.data).get("notify"))
        elif row.kind == "completion_settled":
            due -= 1
        elif row.kind == "incident_opened" and loads(row.data).get("call") == "complete":
            return False
    return due > 0
