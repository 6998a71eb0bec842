"""Incidents: opened, answered and listed with the run that they belong to."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.model.status import Action, Call, IncidentKind
from bext_workflow.ports.store import IncidentRow, LeaseLost, Refused, RunRow, Store
from bext_workflow.testing.contract.base import (
    BAD_TEXT,
    StoreCase,
    committed,
    creation,
    following,
    row,
    run_id,
    started,
    written,
)


def incident_of(run: RunRow, number: int = 1, kind: IncidentKind = IncidentKind.IN_DOUBT) -> IncidentRow:
    return IncidentRow(
        id=f"01900000-1111-7000-8000-{number:012}",
        run_id=run.run_id,
        workflow=run.workflow,
        kind=kind,
        call=Call.STEP,
        step="charge_card",
        visit=1,
        attempt=2,
        reason="the host died during the attempt — “unknown”",
        actions=(Action.DONE, Action.NOT_DONE),
        evidence={"returned": [1, 2.0, -0.0, None], "b": {"a": 2**53 + 1}},
        traceback="Traceback:\n  …",
        opened_at=1_100,
    )


async def opened(store: Store, run: RunRow, *numbers: int) -> list[IncidentRow]:
    incidents = [incident_of(run, number) for number in numbers]
    await committed(store, replace(following(run), opened=tuple(incidents)))
    return incidents


class IncidentsContract(StoreCase):
    async def test_incident_is_there_with_the_append_that_opened_it(self, store: Store) -> None:
        run = await started(store)
        assert (await row(store, run.rid)).incidents == 0

        incidents = await opened(store, run, 1, 2)

        assert (await row(store, run.rid)).incidents == 2
        listed = list(await store.incidents(limit=9))
        assert listed == incidents[::-1]
        # 2 and 2.0 are equal, and so are 0.0 and -0.0 (P47).
        assert repr(listed[0].evidence) == repr(incidents[1].evidence)

    async def test_incident_of_an_append_that_fails_is_not_there(self, store: Store) -> None:
        """P5"""
        run = await started(store)
        append = replace(following(run), opened=(incident_of(run),))

        assert await written(store, [replace(append, fence=7)]) == [LeaseLost()]
        (refused,) = await written(store, [replace(append, events=(("note", BAD_TEXT),))])
        assert isinstance(refused, Refused)

        assert list(await store.incidents(limit=9)) == []
        assert (await row(store, run.rid)).incidents == 0

    async def test_incident_is_resolved_by_an_append(self, store: Store) -> None:
        run = await started(store)
        first, second = await opened(store, run, 1, 2)
        resolution = {"action": "done", "note": "asked the bank", "by": "ada"}

        run = await row(store, run.rid)
        (run,) = await committed(store, replace(following(run), at=1_900, resolved=((first.id, resolution),)))

        assert run.incidents == 1
        assert list(await store.incidents(limit=9)) == [second]
        resolved = replace(first, resolved_at=1_900, resolution=resolution)
        assert list(await store.incidents(open_only=False, limit=9)) == [second, resolved]

    async def test_incident_may_be_opened_and_resolved_by_one_append(self, store: Store) -> None:
        run = await started(store)
        incident = incident_of(run)

        append = replace(following(run), opened=(incident,), resolved=((incident.id, {"action": "void"}),))
        (run,) = await committed(store, append)

        assert run.incidents == 0
        assert list(await store.incidents(limit=9)) == []

    async def test_late_evidence_is_attached_to_the_incident(self, store: Store) -> None:
        run = await started(store)
        (incident,) = await opened(store, run, 1)

        run = await row(store, run.rid)
        await committed(store, replace(following(run), evidence=((incident.id, {"late": True}),)))

        assert list(await store.incidents(limit=9)) == [replace(incident, evidence={"late": True})]

    async def test_incidents_are_listed_newest_first_by_page_and_by_run(self, store: Store) -> None:
        one, two = await committed(store, creation(1), creation(2))
        third, first = await opened(store, one, 3, 1)
        (second,) = await opened(store, two, 2)

        assert list(await store.incidents(limit=2)) == [third, second]
        assert list(await store.incidents(limit=2, before=second.id)) == [first]
        assert list(await store.incidents(run_id=one.run_id, limit=9)) == [third, first]
        assert list(await store.incidents(run_id=one.run_id, limit=9, before=third.id)) == [first]
        assert list(await store.incidents(run_id=run_id(3), limit=9)) == []

        one = await row(store, one.rid)
        await committed(store, replace(following(one), resolved=((third.id, {"action": "done"}),)))
        assert list(await store.incidents(run_id=one.run_id, limit=9)) == [first]
        everything = await store.incidents(run_id=one.run_id, open_only=False, limit=9)
        assert [incident.id for incident in everything] == [third.id, first.id]

    async def test_open_incidents_are_counted_by_kind(self, store: Store) -> None:
        assert list(await store.open_incidents()) == []
        run = await started(store)
        first, second, third = (incident_of(run, number) for number in range(1, 4))
        poison = replace(third, kind=IncidentKind.POISON)
        (run,) = await committed(store, replace(following(run), opened=(first, second, poison)))

        assert sorted(await store.open_incidents()) == [(IncidentKind.IN_DOUBT, 2), (IncidentKind.POISON, 1)]

        resolved = tuple((incident.id, {"action": "done"}) for incident in (second, poison))
        await committed(store, replace(following(run), resolved=resolved))
        assert list(await store.open_incidents()) == [(IncidentKind.IN_DOUBT, 1)]

    async def test_incident_is_found_by_the_beginning_of_its_id(self, store: Store) -> None:
        run = await started(store)
        incidents = await opened(store, run, 11, 12, 13, 21)

        assert list(await store.incident(incidents[0].id)) == [incidents[0]]
        assert list(await store.incident(incidents[3].id[:-1])) == [incidents[3]]
        assert len(await store.incident(incidents[0].id[:-1])) == 2
        assert list(await store.incident("%")) == []
