"""What makes a graph of steps unusable: each rule gives (fault, mend)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.names import END
from bext_workflow.model.step import StepDefinition, declared_next


def graph_faults(steps: Sequence[StepDefinition]) -> Iterator[tuple[str, str]]:
    """All faults of the graph, the first to be mended first."""
    yield from _name_faults(steps)
    yield from _target_faults(steps)
    yield from _fork_faults(steps)


def following_names(steps: Sequence[StepDefinition]) -> dict[str, str]:
    """The step after each step in the list, or `END`."""
    names = [step.name for step in steps]
    return dict(zip(names, [*names[1:], END], strict=True)) if names else {}


def _name_faults(steps: Sequence[StepDefinition]) -> Iterator[tuple[str, str]]:
    names = [step.name for step in steps]
    if not names:
        yield "it has no steps", "name at least one"
    for name in names:
        if names.count(name) > 1:
            yield f"step {name!r} stands twice", "step names are unique in a workflow"


def _target_faults(steps: Sequence[StepDefinition]) -> Iterator[tuple[str, str]]:
    names = [step.name for step in steps]
    chosen = {target for step in steps for target in _chosen(step)}
    for step, following in zip(steps, [*names[1:], None], strict=True):
        for target in (*declared_next(step), *_chosen(step), *_meeting(step)):
            if target not in (END, *names):
                yield f"step {step.name!r} goes to {target!r}, which is not a step", f'use one of {names} or "{END}"'
        if step.next is None and step.map is None and following in chosen:
            yield (
                f"step {step.name!r} would fall through into {following!r}, which is only reached by choice",
                f"give {step.name!r} a next",
            )


def _fork_faults(steps: Sequence[StepDefinition]) -> Iterator[tuple[str, str]]:
    by_name = {step.name: step for step in steps}
    following = following_names(steps)
    for step in steps:
        yield from _own_fork_faults(step)
        for at in _meeting(step):
            for first in _entrances(step):
                yield from _branch_faults(step, first, at, by_name, following)


def _branch_faults(
    step: StepDefinition, first: str, at: str, by_name: dict[str, StepDefinition], following: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the branch of a fork that begins at `first` and is to meet the others at `at`."""
    within = _reachable(first, at, by_name, following)
    if at != END and not _reaches(within, at, by_name, following):
        fault = f"the branch of {step.name!r} that begins at {first!r} never comes to the join at {at!r}"
        yield fault, "lead it there by next, or join elsewhere"
    for name in within:
        if by_name[name].pivot:
            yield f"step {name!r} is a pivot and runs beside other branches", "put the pivot after the join"
        if at in _branches_of(by_name[name], by_name, following):
            fault = f"the branches of {name!r} come to {at!r}, where those of {step.name!r} meet, before they meet"
            yield fault, f"give {name!r} a join, there or before it"


def only_on_items(steps: Sequence[StepDefinition]) -> frozenset[str]:
    """The steps that work on an item of a map and are reached in no other way."""
    by_name = {step.name: step for step in steps}
    following = following_names(steps)
    open_names, outside = [steps[0].name], set[str]()
    while open_names:
        name = open_names.pop()
        if name in outside or name == END:
            continue
        outside.add(name)
        step = by_name[name]
        open_names += (step.map.join,) if step.map is not None else successors(step, following)
    mapped = [step for step in steps if step.map is not None]
    return frozenset(name for step in mapped for name in _branches_of(step, by_name, following)) - outside


def side_by_side(steps: Sequence[StepDefinition]) -> Iterator[tuple[StepDefinition, StepDefinition]]:
    """Each pair of steps that different branches of a fork may stand at together; a step may pair with itself."""
    by_name, following = {step.name: step for step in steps}, following_names(steps)
    for step in steps:
        meeting = _meeting(step)
        if not meeting or step.map is not None:
            continue
        branches = [_reachable(first, meeting[0], by_name, following) for first in _entrances(step)]
        for number, one in enumerate(branches):
            for other in branches[number + 1 :]:
                yield from ((by_name[here], by_name[there]) for here in one for there in other)


def _own_fork_faults(step: StepDefinition) -> Iterator[tuple[str, str]]:
    targets = declared_next(step)
    if len(set(targets)) < len(targets):
        yield f"step {step.name!r} forks into one step twice", "a fork names each step once"
    if not isinstance(step.next, str) and step.next is not None and len(targets) < 2:
        yield f"step {step.name!r}: next is a list of {len(targets)}", "a fork names at least two steps"
    if END in targets and len(targets) > 1:
        yield f'step {step.name!r} forks into "{END}"', "a branch that has nothing to do is left out"
    if step.map is not None:
        yield from _map_faults(step, step.map)
    if step.join is not None:
        yield from _join_faults(step, step.join)


def _map_faults(step: StepDefinition, map_: MapDefinition) -> Iterator[tuple[str, str]]:
    if step.next is not None or step.join is not None or step.branches:
        yield f"step {step.name!r} states map beside next, join or branches", "a map says all of that itself"
    if map_.max_concurrency < 1:
        yield f"step {step.name!r}: map.max_concurrency is {map_.max_concurrency}", "at least 1"
    if map_.at == map_.join:
        yield f"step {step.name!r}: map.at and map.join are one step", "the items are worked on before they meet"


def _join_faults(step: StepDefinition, join: JoinDefinition) -> Iterator[tuple[str, str]]:
    targets = (*declared_next(step), *step.branches)
    if len(targets) < 2:
        yield f"step {step.name!r} has a join and forks into less than two branches", "give next a list, or drop join"
    if isinstance(join.need, int) and not 1 <= join.need <= max(len(targets), 1):
        yield (
            f"step {step.name!r}: join.need is {join.need} of {len(targets)} branches",
            'use 1 to that, "all" or "any"',
        )
    if join.at in targets:
        yield f"step {step.name!r} joins at {join.at!r}, where one of its branches begins", "join at a later step"


def _chosen(step: StepDefinition) -> tuple[str, ...]:
    """What is only reached by choice: never by fall-through (semantics §3)."""
    forked = declared_next(step) if not isinstance(step.next, str) else ()
    mapped = (step.map.at,) if step.map is not None else ()
    ways = () if step.wait is None else step.wait.ways
    return (*forked, *step.branches, *mapped, *ways)


def _meeting(step: StepDefinition) -> tuple[str, ...]:
    """Where the branches of a forking step meet; () if it does not fork, `END` if they do not meet."""
    if step.map is not None:
        return (step.map.join,)
    if step.join is not None:
        return (step.join.at,)
    return (END,) if step.next is not None and not isinstance(step.next, str) else ()


def _entrances(step: StepDefinition) -> tuple[str, ...]:
    """The steps at which the branches of a forking step may begin."""
    if step.map is not None:
        return (step.map.at,)
    return tuple(name for name in (*declared_next(step), *step.branches) if name != END)


def _branches_of(step: StepDefinition, by_name: dict[str, StepDefinition], following: dict[str, str]) -> frozenset[str]:
    """The steps that the branches of a forking step may come through before they meet; none if it does not fork."""
    meeting = _meeting(step)
    firsts = _entrances(step) if meeting else ()
    return frozenset(name for first in firsts for name in _reachable(first, meeting[0], by_name, following))


def _reachable(
    first: str, until: str, by_name: dict[str, StepDefinition], following: dict[str, str]
) -> tuple[str, ...]:
    """The steps that a branch may come through from `first` on, before `until`."""
    seen: dict[str, None] = {}
    open_names = [first]
    while open_names:
        name = open_names.pop()
        if name in seen or name in (until, END) or name not in by_name:
            continue
        seen[name] = None
        open_names += successors(by_name[name], following)
    return tuple(seen)


def _reaches(
    within: tuple[str, ...], meeting: str, by_name: dict[str, StepDefinition], following: dict[str, str]
) -> bool:
    return any(target in (meeting, END) for name in within for target in successors(by_name[name], following))


def successors(step: StepDefinition, following: dict[str, str]) -> tuple[str, ...]:
    """Every step that may come after `step`, those of its fork and its join among them."""
    default = declared_next(step) or ((following[step.name],) if step.map is None else ())
    return tuple(dict.fromkeys((*default, *_chosen(step), *_meeting(step))))
