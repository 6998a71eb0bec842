"""What the numbers and flags of a step tell before it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from bext_workflow.checks.codes import finding
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.plugin.overlay import OF_RUN_STEP
from bext_workflow.service.wiring import Finding

DAY_MS = 86_400_000
_SUMMED_ONE_BY_ONE = 1000


def check_policies(definition: WorkflowDefinition, where: str) -> Iterator[Finding]:
    """Time-outs, retries and waits of each step."""
    for step in definition.steps:
        place = f"{where}, step {step.name}"
        if step.hosted:
            yield from _check_hosted(step, definition, place)
        else:
            yield from _check_step(step, place)


def check_undo(
    definition: WorkflowDefinition, where: str, *, has_undo: bool, stated: Collection[str]
) -> Iterator[Finding]:
    """Whether what completed is undone. `stated`: the steps whose `compensate_on_failure` the config states.

    Which steps the hook undoes is the plugin's knowledge, so a workflow counts as thought through once one of its steps
    says `compensate_on_failure = true`. What the host does itself has no effects.
    """
    acting = [step for step in definition.steps if not step.hosted]
    if not has_undo:
        if len(acting) > 1:
            yield finding("no-undo", where, "the plugin has no compensate_step")
        return
    if any(step.compensate_on_failure for step in acting):
        return
    unsaid = [step.name for step in acting if step.name not in stated]
    if unsaid:
        yield finding("undo-of-failed-unsaid", where, f"compensate_on_failure is not stated for {', '.join(unsaid)}")


def longest_ms(policy: RetryPolicy, timeout_ms: int) -> int:
    """An upper bound of the time that all attempts and the waits between them take."""
    counted = min(policy.max_attempts, _SUMMED_ONE_BY_ONE)
    waits = sum(policy.delay_ms_for_attempt(n) for n in range(1, counted + 1))
    later = (policy.max_attempts - counted) * policy.delay_ms_for_attempt(policy.max_attempts)
    longest = waits + later + policy.max_attempts * timeout_ms
    return min(longest, policy.max_elapsed_ms + timeout_ms) if policy.max_elapsed_ms else longest


def _check_hosted(step: StepDefinition, definition: WorkflowDefinition, where: str) -> Iterator[Finding]:
    own = replace(step, retry_on=None) if step.retry_on == definition.retry_on else step
    plain = StepDefinition(name=step.name)
    idle = [key for key in OF_RUN_STEP if getattr(own, key) != getattr(plain, key)]
    if idle:
        yield finding("wait-says-too-much", where, f"the host does it, and it states {', '.join(idle)}")
    if not step.waits:
        return
    bound = definition.timeout_ms
    longest = step.wait.timeout_ms if step.wait is not None else step.sleep_ms
    if longest == 0 and bound == 0:
        yield finding("wait-unbounded", where, "a run waits here until the signal comes")
    if 0 < bound <= longest:
        never = f", so that it never goes to {step.wait.on_timeout!r}" if step.wait and step.wait.on_timeout else ""
        yield finding("wait-outlives-run", where, f"it waits {longest} ms, and the whole run has {bound} ms{never}")


def _check_step(step: StepDefinition, where: str) -> Iterator[Finding]:
    policy = step.retries
    if step.timeout_ms == 0:
        silent = ", silent or not" if step.heartbeat_ms else ""
        yield finding("no-timeout", where, f"an attempt may take for ever{silent} (timeout_ms = 0)")
    longest = longest_ms(policy, step.timeout_ms)
    if longest > DAY_MS:
        yield finding("slow-to-fail", where, f"{policy.max_attempts} attempts may take {longest / DAY_MS:.1f} days")
    if policy.max_attempts == 1:
        return
    if not step.repeatable:
        yield finding("retries-need-word", where, f"max_attempts = {policy.max_attempts} and idempotent = false")
    if policy.delay_ms_for_attempt(2) == 0:
        yield finding("retries-without-wait", where, f"{policy.max_attempts} attempts without a wait between them")
    elif policy.backoff_ms > policy.max_backoff_ms:
        yield finding(
            "backoff-over-limit", where, f"backoff_ms = {policy.backoff_ms}, max_backoff_ms = {policy.max_backoff_ms}"
        )
