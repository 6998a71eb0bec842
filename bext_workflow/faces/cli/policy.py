"""How a step is treated, in words."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.faces.cli.cells import duration
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.step import declared_next
from bext_workflow.model.wait import WaitDefinition

_THEN = {OnExhausted.FAIL: "then it fails without undo", OnExhausted.INCIDENT: "then a person decides"}

_ANY_VISITS = StepDefinition(name="any").max_visits


def policy_of(step: StepDefinition) -> str:
    """What the host does with the step, in one line; a bound that only a loop gone wrong meets is not worth a word."""
    return "; ".join(_told(step))


def _told(step: StepDefinition) -> Iterator[str]:
    if step.wait is not None:
        yield ", ".join(_waited_for(step.wait))
    elif step.sleep_ms:
        yield f"waits {duration(step.sleep_ms)}"
    elif step.workflow is not None:
        yield f"runs the workflow {step.workflow}"
    else:
        yield _tries(step.retries)
        if step.retry_on:
            yield f"retried on {', '.join(step.retry_on)}"
        yield f"time-out {duration(step.timeout_ms)}" if step.timeout_ms else "no time-out"
        if step.heartbeat_ms:
            yield f"a heartbeat holds for {duration(step.heartbeat_ms)}"
    yield from _flags(step)
    yield from _ways(step)
    if step.branches:
        yield f"may go to {', '.join(step.branches)}"
    if step.max_visits != _ANY_VISITS:
        yield f"at most {step.max_visits} visits"
    if not step.hosted:
        yield f"undo: {_tries(step.compensation_retries)}"


def _waited_for(wait: WaitDefinition) -> Iterator[str]:
    into = f" into {wait.into}" if wait.into else ""
    if wait.approval is None:
        yield f"waits for the signal {wait.signal}{into}"
    else:
        yield f"waits for the decision of {', '.join(wait.approval.by) or 'anybody'}{into}"
    if wait.timeout_ms:
        yield f"at most {duration(wait.timeout_ms)}"
        yield "then it fails" if wait.on_timeout is None else f"then it goes to {wait.on_timeout}"
    if wait.approval is not None and wait.approval.on_reject is not None:
        yield f"a no goes to {wait.approval.on_reject}"


def _ways(step: StepDefinition) -> Iterator[str]:
    names = declared_next(step)
    if len(names) > 1:
        yield f"forks into {', '.join(names)}"
    elif names:
        yield f"next {names[0]}"
    if step.join is not None:
        needed = {"all": "all of them", "any": "the first of them"}.get(
            str(step.join.need), f"{step.join.need} of them"
        )
        yield f"joins {needed} at {step.join.at}"
    if step.map is not None:
        yield f"a branch for each of {step.map.over} from {step.map.at}, joined at {step.map.join}"


def _flags(step: StepDefinition) -> Iterator[str]:
    if not step.idempotent:
        yield "not idempotent"
    if step.transactional:
        yield "transactional"
    if step.pivot:
        yield "pivot"
    if step.compensate_on_failure:
        yield "its own undo runs if it fails"
    if not step.undo_idempotent:
        yield "undo not idempotent"


def _tries(policy: RetryPolicy) -> str:
    """`3 attempts, 1 s × 2, at most 30 s`: how many, the first wait, what it grows by, and its bound."""
    parts = ["1 attempt"] if policy.max_attempts == 1 else [f"{policy.max_attempts} attempts", *_waits(policy)]
    if policy.on_exhausted in _THEN:
        parts.append(_THEN[policy.on_exhausted])
    return ", ".join(parts)


def _waits(policy: RetryPolicy) -> Iterator[str]:
    if policy.delay_ms_for_attempt(2) == 0:
        yield "no wait"
        return
    grows = policy.backoff_multiplier != 1
    yield duration(policy.backoff_ms) + (f" × {policy.backoff_multiplier:g}" if grows else " each")
    if grows or policy.backoff_ms > policy.max_backoff_ms:
        yield f"at most {duration(policy.max_backoff_ms)}"
    if policy.jitter:
        yield f"up to {policy.jitter:.0%} shorter"
    if policy.max_elapsed_ms:
        yield f"none later than {duration(policy.max_elapsed_ms)}"
