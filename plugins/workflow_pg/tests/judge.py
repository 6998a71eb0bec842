"""What hosts have done together, judged from outside: the calls that the plugin noted, and the rows of the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus
from plugins.workflow_pg.tests.effects import STEPS


class Noted(msgspec.Struct, frozen=True):
    """A line of the file of calls. `what`: a call begins or ends, or its host has died."""

    host: int
    run: str = ""
    key: str = ""
    what: str = "died"


class Story(msgspec.Struct, frozen=True):
    """What must come of a run: how it ends, its journal, and its calls in order; neither counts what was repeated."""

    status: WorkflowStatus
    kinds: tuple[str, ...]
    calls: tuple[str, ...]


class Found(msgspec.Struct, frozen=True):
    """What has come of a run."""

    status: WorkflowStatus
    kinds: tuple[str, ...]


def story_of(context: JsonObject) -> Story:
    fails = context.get("fails")
    if fails is None:
        kinds = ("run_created", *["step_completed"] * len(STEPS), "run_completed")
        return Story(WorkflowStatus.COMPLETED, kinds, tuple(f":{step}" for step in STEPS))
    assert isinstance(fails, str)
    done = STEPS[: STEPS.index(fails)]
    undone = tuple(f":{step}:compensate" for step in reversed(done))
    kinds = (
        "run_created",
        *["step_completed"] * len(done),
        "step_failed",
        "compensation_started",
        *["step_compensated"] * len(done),
        "run_compensated",
    )
    return Story(WorkflowStatus.COMPENSATED, kinds, (*(f":{step}" for step in (*done, fails)), *undone))


def faults(
    wanted: Mapping[str, JsonObject], found: Mapping[str, Found], calls: Sequence[Noted], *, losses: int
) -> Iterator[str]:
    """Why these runs, each with its context, are not what the text says. `losses`: how often a host lost its runs.

    Each run ends as its context says, and its journal tells it once (P1, P16). Its calls come in their order: none
    begins again once a later one has begun. One is repeated at most once for each time that a host lost it (P3).
    """
    if found.keys() != wanted.keys():
        yield f"there are {len(found)} runs of {len(wanted)}: {sorted(found.keys() ^ wanted.keys())}"
    made: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        if call.what == "begin":
            made[call.run].append(call.key)
    for run_id, context in wanted.items():
        story = story_of(context)
        if run_id in found and found[run_id] != Found(story.status, story.kinds):
            yield f"{run_id} became {found[run_id]}"
        if tuple(key for key, _ in groupby(made[run_id])) != story.calls:
            yield f"{run_id} made the calls {made[run_id]}"
        if len(made[run_id]) - len(story.calls) > losses:
            yield f"{run_id} repeated more than {losses} calls: {made[run_id]}"


def overlaps(calls: Sequence[Noted]) -> Iterator[str]:
    """Calls with one key that two hosts made at once (P32). What a host did that has died is over."""
    running: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for call in calls:
        if call.what == "died":
            for hosts in running.values():
                del hosts[call.host]
            continue
        hosts = running[call.run, call.key]
        hosts[call.host] += 1 if call.what == "begin" else -1
        if len(+hosts) > 1:
            yield f"{call.run}{call.key} was called by {sorted(+hosts)} at once"
