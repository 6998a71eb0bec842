"""The batch: all members by two statements in one transaction, or, if the database refuses one of them, by halves (P7).

A member that does not hold is no error: the statements answer which did, and one more reading tells why the others
did not. Members succeed or fail one by one, so what has been committed stands, whatever becomes of the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bext_workflow.model.json import dumps
from bext_workflow.ports.store import Append, Committed, Create, Member, Refused, Result
from bext_workflow_pg.store import columns, queries, webhooks
from bext_workflow_pg.store.connections import Connection, Lending
from bext_workflow_pg.store.faults import MEMBER_FAULTS, words_of
from bext_workflow_pg.store.rows import approval_values, incident_values
from bext_workflow_pg.store.verdict import why_not_appended, why_not_created
from bext_workflow_pg.store.wakeups import Wakeups

_SQL = queries.load("write.sql")


async def write(lending: Lending, wakeups: Wakeups, batch: Sequence[Member]) -> Sequence[Result]:
    """Members of one run one after the other; once one of them fails, its owner's later ones do like it (semantics §6).

    Another fence is another owner: a host that had lost the run and took it over again may have appends of both here.
    """
    results: dict[int, Result] = {}
    failed: dict[tuple[int, int], Result] = {}
    for places in _rounds(batch):
        due = []
        for place in places:
            member = batch[place]
            earlier = failed.get((member.rid, member.fence)) if isinstance(member, Append) else None
            if earlier is None:
                due.append(place)
            else:
                results[place] = earlier
        judged = await _judged(lending, wakeups, [batch[place] for place in due])
        for place, result in zip(due, judged, strict=True):
            results[place], member = result, batch[place]
            if isinstance(member, Append) and not isinstance(result, Committed):
                failed[member.rid, member.fence] = result
    return [results[place] for place in range(len(batch))]


async def change_with(connection: Connection, wakeups: Wakeups, append: Append) -> None:
    """What an append that holds brings with it, beside its run's row and its journal."""
    await _change_the_rest(connection, [append])
    if _due_for_others(append):
        await wakeups.tell(connection, None)


async def beat(connection: Connection) -> None:
    """Writes something, down to the disk, that changes nothing."""
    await connection.fetchval(_SQL["beat"])


def _rounds(batch: Sequence[Member]) -> Iterator[list[int]]:
    """The places of the members, so that a run has one in a round, and its n-th is in the n-th round."""
    rounds: list[list[int]] = []
    before: Counter[int | str] = Counter()
    for place, member in enumerate(batch):
        run = _run_of(member)
        if before[run] == len(rounds):
            rounds.append([])
        rounds[before[run]].append(place)
        before[run] += 1
    yield from rounds


def _run_of(member: Member) -> int | str:
    return member.rid if isinstance(member, Append) else member.run_id


async def _judged(lending: Lending, wakeups: Wakeups, members: Sequence[Member]) -> list[Result]:
    """One result a member. If the database refuses the whole, each half gets a transaction of its own, and so on."""
    if not members:
        return []
    try:
        return await _together(lending, wakeups, members)
    except MEMBER_FAULTS as fault:
        if len(members) == 1:
            return [await _alone_refused(lending, members[0], words_of(fault))]
    half = len(members) // 2
    return [
        *await _judged(lending, wakeups, members[:half]),
        *await _judged(lending, wakeups, members[half:]),
    ]


async def _together(lending: Lending, wakeups: Wakeups, members: Sequence[Member]) -> list[Result]:
    """Raises one of `MEMBER_FAULTS` for a member that cannot be kept; then none is."""
    creates = [member for member in members if isinstance(member, Create)]
    # Rows are locked in the order of the columns: the same one in every batch.
    appends = sorted((member for member in members if isinstance(member, Append)), key=lambda append: append.rid)
    new, moved = columns.of_creates(creates), columns.of_appends(appends)

    others = any(map(_due_for_others, members))
    alone = not others and not (creates and appends) and not any(map(_changes_more, appends))

    async def job(connection: Connection) -> tuple[dict[str, int], set[int]]:
        begun = {run_id: rid for rid, run_id in await connection.fetch(_SQL["create"], *new)} if creates else {}
        held = {rid for (rid,) in await connection.fetch(_SQL["advance"], *moved)} if appends else set()
        await _change_the_rest(connection, [append for append in appends if append.rid in held])
        if others:
            await wakeups.tell(connection, None)
        return begun, held

    begun, held = await (lending.write_at_once if alone else lending.write)(job)
    told = await _told(lending, members, begun, held)
    return [
        told[place]
        if place in told
        else Committed(member.rid, member.seq + len(member.events))
        if isinstance(member, Append)
        else Committed(begun[member.run_id], len(member.events))
        for place, member in enumerate(members)
    ]


async def _told(
    lending: Lending, members: Sequence[Member], begun: dict[str, int], held: set[int]
) -> dict[int, Result]:
    """Why those that did not hold did not, by their places."""
    creates = {at: one for at, one in enumerate(members) if isinstance(one, Create) and one.run_id not in begun}
    appends = {at: one for at, one in enumerate(members) if isinstance(one, Append) and one.rid not in held}
    told: dict[int, Result] = {}
    if creates:
        wanting = list(creates.values())
        told |= zip(creates, await lending.read(lambda c: why_not_created(c, wanting)), strict=True)
    if appends:
        lost = list(appends.values())
        told |= zip(appends, await lending.read(lambda c: why_not_appended(c, lost)), strict=True)
    return told


async def _alone_refused(lending: Lending, member: Member, reason: str) -> Result:
    try:
        if isinstance(member, Create):
            (result,) = await lending.read(lambda connection: why_not_created(connection, [member], reason))
        else:
            (result,) = await lending.read(lambda connection: why_not_appended(connection, [member], reason))
    except MEMBER_FAULTS:
        # What cannot be kept cannot be asked for either.
        return Refused(reason)
    return result


def _due_for_others(member: Member) -> bool:
    """Whether a run is nobody's now that a host may take up; one that its host parks, that host looks after."""
    index = member.index
    if isinstance(member, Create):
        return member.owner is None and index.wake_at is not None
    return index.release and index.wake_at is not None and index.wake_at <= member.at


def _changes_more(append: Append) -> bool:
    """Whether it takes more than its run's row and its journal."""
    concerns_incidents = append.opened or append.resolved or append.evidence
    return bool(append.taken or concerns_incidents or append.asked or append.decided or append.deliveries)


async def _change_the_rest(connection: Connection, appends: Sequence[Append]) -> None:
    taken = [(append.rid, append.taken) for append in appends if append.taken]
    if taken:
        await connection.execute(_SQL["take_acts"], *columns.turned(taken, width=2))
    changing = [append for append in appends if append.opened or append.resolved or append.evidence]
    for append in changing:
        await _change_incidents(connection, append)
    if changing:
        await connection.execute(_SQL["count_incidents"], [append.rid for append in changing])
    for append in appends:
        await _change_approvals(connection, append)
    deliveries = [delivery for append in appends for delivery in append.deliveries]
    if deliveries:
        await webhooks.keep(connection, deliveries)


async def _change_incidents(connection: Connection, append: Append) -> None:
    rid = append.rid
    for incident in append.opened:
        await connection.execute(_SQL["open_incident"], *incident_values(rid, incident))
    for incident_id, evidence in append.evidence:
        await connection.execute(_SQL["attach_evidence"], dumps(evidence).decode(), incident_id, rid)
    for incident_id, resolution in append.resolved:
        await connection.execute(_SQL["resolve_incident"], append.at, dumps(resolution).decode(), incident_id, rid)


async def _change_approvals(connection: Connection, append: Append) -> None:
    for approval_id, resolution in append.decided:
        await connection.execute(_SQL["decide"], append.at, dumps(resolution).decode(), approval_id, append.rid)
    for approval in append.asked:
        await connection.execute(_SQL["ask"], *approval_values(append.rid, approval))
