"""What must hold of every case, whatever went wrong in it (docs/testing.md, "What must hold")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.event import StepFailed
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.plugin.rehearsal import Effect
from bext_workflow.testing.prover.faults import CRASHES, UNKNOWN, Fault, FaultKind
from bext_workflow.testing.prover.played import Played, Wrong, step_name

_ENDS = ("run_completed", "run_compensated", "run_failed", "run_cancelled")

_GOES_ON = CRASHES | {FaultKind.RETRY_ONCE, FaultKind.LOST_LEASE, FaultKind.TIME_OUT}
"""After these a step that may be repeated is repeated, and the run ends as if nothing had been."""


def judge(played: Played, baseline: Played) -> Iterator[Wrong]:
    """What is wrong with a case; `baseline` is the same path without a fault."""
    yield from dict.fromkeys(played.wrongs)
    for rule in (_comes_to_rest, _status, _nothing_after_its_outcome, _order, _completion):
        yield from rule(played, baseline)
    yield from _done_once(played, baseline)
    yield from _undone_once(played)


def _comes_to_rest(played: Played, _: Played) -> Iterator[Wrong]:
    if played.stuck:
        yield Wrong("never-ends", "", f"the run is {played.history.status}, and goes on and on")
    elif not played.history.status.terminal:
        kinds = ", ".join(incident.kind for incident in played.history.incidents)
        why = kinds or "nothing sets it going again"
        yield Wrong("never-ends", "", f"the run stays {played.history.status}: {why}")


def _status(played: Played, baseline: Played) -> Iterator[Wrong]:
    """Legal final statuses."""
    status, usual, faults = played.history.status, baseline.history.status, played.case.faults
    if not status.terminal:
        return
    if not faults:
        if played.answered:
            yield Wrong("status", "", f"without a fault it came to an incident: {played.answered[0].kind}")
        return
    if all(_must_go_on(played, fault) for fault in faults):
        if status is not usual and not played.answered:
            yield Wrong("status", "", f"it ends {status}, and without the fault {usual}: {played.history.failure}")
    elif _must_stop(played) and status is WorkflowStatus.COMPLETED:
        yield Wrong("status", "", "it ends COMPLETED in spite of the fault")
    if status is WorkflowStatus.FAILED and usual is not status and not _may_fail(played):
        yield Wrong("status", "", f"it ends FAILED: {played.history.failure}")


def _must_stop(played: Played) -> bool:
    failed = any(event.kind == "step_failed" for event in played.durable)
    return (played.cancelled or failed) and not played.answered


def _must_go_on(played: Played, fault: Fault) -> bool:
    if _is_ending(fault.site) or (fault.site.endswith(":wait") and fault.kind in CRASHES):
        return True
    step = played.step_of(fault.site)
    if step is None or fault.site.endswith(":compensate") or fault.kind not in _GOES_ON or not step.idempotent:
        return False
    if fault.kind in CRASHES or fault.kind is FaultKind.LOST_LEASE:
        return True
    # What takes time may be out of time after that.
    bounded = step.retries.max_elapsed_ms > 0 or played.workflow_of(fault.site).timeout_ms > 0
    return step.retries.max_attempts > 1 and not bounded


def _may_fail(played: Played) -> bool:
    """Whether the plugin, or the policy, says that the run ends without an undo."""
    said = any(isinstance(event, StepFailed) and not event.compensate for event, _ in played.history.journal)
    return said or any(answer.kind is IncidentKind.COMPENSATION_FAILED for answer in played.answered)


def _nothing_after_its_outcome(played: Played, _: Played) -> Iterator[Wrong]:
    """P1: no step, and no undo, is called again after its checkpoint."""
    done: dict[str, int] = {}
    for event in played.durable:
        if event.kind in ("step_completed", "step_failed"):
            done[event.site] = event.at
        elif event.kind == "step_compensated":
            done[f"{event.site}:compensate"] = event.at
    for made in played.calls:
        if made.at > done.get(made.site, made.at):
            yield Wrong("repeated", made.site, "is called again after its checkpoint")


def _order(played: Played, _: Played) -> Iterator[Wrong]:
    """P10: undone in the reverse order of completion. Losers of a join are undone on their own."""
    if any(event.kind == "losers_undo_started" for event in played.durable):
        return
    completed = [event.site for event in played.durable if event.kind == "step_completed"]
    undone = [e.site for e in played.durable if e.kind == "step_compensated" and e.site in completed]
    if undone != [site for site in reversed(completed) if site in undone]:
        yield Wrong("order", "", f"undone in the order {', '.join(undone)}")


def _completion(played: Played, _: Played) -> Iterator[Wrong]:
    """P17: `on_workflow_complete` is called for every ending, and not before it is durable."""
    if not played.notifies or played.stuck:
        return
    ends = [event.at for event in played.durable if event.kind in _ENDS]
    for n, at in enumerate(ends, 1):
        called = [made.at for made in played.calls if made.site == f"complete#{n}"]
        if not called:
            yield Wrong("completion", "", f"on_workflow_complete is not called for ending {n}")
        elif called[0] < at:
            yield Wrong("completion", "", f"on_workflow_complete is called before ending {n} is durable")


def _done_once(played: Played, baseline: Played) -> Iterator[Wrong]:
    """A step does what it does once, however often it is called."""
    usual = _counts(baseline.effects)
    visited = {made.site for made in baseline.calls}
    for (site, what), count in _counts(played.effects).items():
        most = usual[site, what] if site in visited else _most_of_one_call(played.effects, site, what)
        if count > most:
            keys = ", ".join(e.key for e in _done(played.effects) if (e.site, e.what) == (site, what))
            yield Wrong("done-twice", site, f"has done {what} {count} times in place of {most}, with the keys {keys}")


def _undone_once(played: Played) -> Iterator[Wrong]:
    """What was done stands, or is undone once."""
    undos = _undos(played.effects)
    status = played.history.status
    undone_visits = {event.site for event in played.durable if event.kind == "step_compensated"}
    for effect in _done(played.effects):
        times = len(undos[effect.n])
        if times > 1:
            yield Wrong("undone-twice", effect.site, f"{effect.what} is undone {times} times, with different keys")
        elif _is_ending(effect.site) or effect.what in played.stays:
            continue
        elif status is WorkflowStatus.COMPLETED:
            if times and effect.site not in undone_visits:
                yield Wrong("undone", effect.site, f"{effect.what} is undone, and the run COMPLETED")
        elif status.terminal and not times and not _is_excused(played, effect):
            yield Wrong("left-behind", effect.site, f"{effect.what} is done and not undone, and the run is {status}")
    yield from _undone_without_done(played)


def _undone_without_done(played: Played) -> Iterator[Wrong]:
    """The undo of a step that completed has something to undo, if it undoes at all."""
    found = {undo.n for of_one in _undos(played.effects).values() for undo in of_one}
    completed = {event.site for event in played.durable if event.kind == "step_completed"}
    for effect in played.effects:
        if effect.undoes is None or effect.n in found:
            continue
        if effect.site.removesuffix(":compensate") in completed:
            why = f"undoes {effect.what} {effect.undoes}, which was never done"
            yield Wrong("undone-without-done", effect.site, why)


def _is_excused(played: Played, effect: Effect) -> bool:
    """Whether the plugin's own word, or a person's, leaves the effect in place."""
    step = played.step_of(effect.site)
    if step is None:
        return False
    if effect.site == step.name and step.name in played.history.left_in_place:
        return True
    if _pivot_has_passed(played):
        return True
    unknown = any(fault.site == effect.site and fault.kind in UNKNOWN for fault in played.case.faults)
    completed = any(e.kind == "step_completed" and e.site == effect.site for e in played.durable)
    return unknown and not completed and _says_false(played.workflow_of(effect.site), step)


def _says_false(workflow: WorkflowDefinition, step: StepDefinition) -> bool:
    """As `check` reads it: a workflow is thought through once one of its steps says true."""
    return not step.compensate_on_failure and any(one.compensate_on_failure for one in workflow.steps)


def _pivot_has_passed(played: Played) -> bool:
    pivots = {step.name for step in played.definition.steps if step.pivot}
    return any(event.kind == "step_completed" and step_name(event.site) in pivots for event in played.durable)


def _is_ending(site: str) -> bool:
    """Whether it is a call of `on_workflow_complete`, of the run itself or of a child."""
    return site.rpartition("/")[2].startswith("complete#")


def _done(effects: tuple[Effect, ...]) -> list[Effect]:
    return [effect for effect in effects if effect.undoes is None]


def _undos(effects: tuple[Effect, ...]) -> dict[int, list[Effect]]:
    """The undos of each effect, by its number."""
    return {effect.n: [other for other in effects if other.takes_back(effect)] for effect in _done(effects)}


def _counts(effects: tuple[Effect, ...]) -> Counter[tuple[str, str]]:
    return Counter((effect.site, effect.what) for effect in _done(effects))


def _most_of_one_call(effects: tuple[Effect, ...], site: str, what: str) -> int:
    calls = Counter(e.call for e in _done(effects) if (e.site, e.what) == (site, what))
    return max(calls.values())
