"""Everything that only reads, the definitions, and the store's own life."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.ports.store import RunFilter, Store
from bext_workflow.testing.contract.base import (
    STEPPED,
    TRICKY_TEXT,
    StoreCase,
    committed,
    creation,
    ended,
    following,
    row,
    run_id,
    started,
)
from bext_workflow.testing.contract.incidents import incident_of


async def found(store: Store, wanted: RunFilter, *, limit: int = 100, before: int | None = None) -> list[int]:
    """The numbers of the runs."""
    runs = await store.runs(wanted, limit=limit, before=None if before is None else run_id(before))
    return [int(run.run_id[-12:]) for run in runs]


async def mixed(store: Store) -> None:
    """Runs 1 to 6 of two workflows: 3 and 6 have ended, 5 is suspended with an incident."""
    tags = [{"region": "eu"}, {"region": "us"}, {"region": "eu", "tier": "a"}, {}, {"tier": "a"}, {"region": "e"}]
    runs = await committed(
        store,
        *(
            replace(
                creation(number),
                at=number * 1_000,
                tags=tags[number - 1],
                workflow="pack" if number % 2 else "checkout",
                version=1 + number // 4,
            )
            for number in range(1, 7)
        ),
    )
    suspended = replace(creation().index, status=WorkflowStatus.SUSPENDED)
    await committed(
        store,
        following(runs[2], index=ended()),
        replace(following(runs[4], index=suspended), opened=(incident_of(runs[4], 1, IncidentKind.POISON),)),
        following(runs[5], index=ended(status=WorkflowStatus.FAILED)),
    )


class ListingContract(StoreCase):
    async def test_runs_are_listed_newest_first_by_page(self, store: Store) -> None:
        await mixed(store)

        assert await found(store, RunFilter()) == [6, 5, 4, 3, 2, 1]
        assert await found(store, RunFilter(), limit=2) == [6, 5]
        assert await found(store, RunFilter(), limit=2, before=5) == [4, 3]
        assert await found(store, RunFilter(), before=1) == []

    async def test_row_of_a_list_is_the_row_of_the_run(self, store: Store) -> None:
        run = await started(store)

        assert list(await store.runs(RunFilter(), limit=1)) == [run]

    @pytest.mark.parametrize(
        ("wanted", "numbers"),
        [
            (RunFilter(workflow="pack"), [5, 3, 1]),
            (RunFilter(workflow="pac"), []),
            (RunFilter(version=2), [6, 5, 4]),
            (RunFilter(statuses=(WorkflowStatus.RUNNING,)), [4, 2, 1]),
            (RunFilter(statuses=(WorkflowStatus.FAILED, WorkflowStatus.COMPLETED)), [6, 3]),
            (RunFilter(statuses=(WorkflowStatus.CANCELLED,)), []),
            (RunFilter(tags={"region": "eu"}), [3, 1]),
            (RunFilter(tags={"region": "eu", "tier": "a"}), [3]),
            (RunFilter(tags={"region": "%"}), []),
            (RunFilter(since=3_000), [6, 5, 4, 3]),
            (RunFilter(until=3_000), [2, 1]),
            (RunFilter(since=2_000, until=4_000), [3, 2]),
            (RunFilter(incident=IncidentKind.POISON), [5]),
            (RunFilter(incident=IncidentKind.IN_DOUBT), []),
            (RunFilter(workflow="pack", version=2, statuses=(WorkflowStatus.SUSPENDED,), tags={"tier": "a"}), [5]),
            (RunFilter(workflow="checkout", version=1, since=2_001), []),
        ],
    )
    async def test_runs_are_filtered_by_all_that_is_given(
        self, store: Store, wanted: RunFilter, numbers: list[int]
    ) -> None:
        await mixed(store)

        assert await found(store, wanted) == numbers
        assert await found(store, wanted, limit=1) == numbers[:1]
        if numbers:
            assert await found(store, wanted, before=numbers[0]) == numbers[1:]

    async def test_filter_by_incident_asks_for_open_ones(self, store: Store) -> None:
        await mixed(store)
        (run,) = await store.runs(RunFilter(incident=IncidentKind.POISON), limit=1)
        (incident,) = await store.incidents(limit=1)

        await committed(store, replace(following(run), resolved=((incident.id, {"action": "retry"}),)))

        assert await found(store, RunFilter(incident=IncidentKind.POISON)) == []

    async def test_run_is_found_by_the_beginning_of_its_id(self, store: Store) -> None:
        runs = await committed(store, *(creation(number) for number in (11, 12, 13, 21)))

        assert list(await store.find(run_id(11))) == [runs[0]]
        assert list(await store.find(run_id(21)[:-1])) == [runs[3]]
        assert len(await store.find(run_id(11)[:-1])) == 2
        assert len(await store.find("", limit=3)) == 3
        for prefix in ("%", "_", run_id(11) + "0", "zz"):
            assert list(await store.find(prefix)) == []

    async def test_events_are_read_by_page(self, store: Store) -> None:
        run = await started(store)
        await committed(store, following(run, *[STEPPED] * 5))

        events = await store.events(run.rid, after=1, limit=3)

        assert [event.seq for event in events] == [2, 3, 4]
        assert [event.seq for event in await store.events(run.rid, after=4, limit=3)] == [5, 6]
        assert list(await store.events(run.rid, after=6, limit=3)) == []
        assert list(events) == list((await store.load(run.rid)).events)[1:4]

    async def test_definitions_are_kept_by_digest_and_their_policy_is_replaced(self, store: Store) -> None:
        """P49, P47"""
        await store.save_definition("checkout", 1, "digest-1", "p-1", b'{"old":1}')
        await store.save_definition("checkout", 1, "digest-1", "p-2", TRICKY_TEXT)
        await store.save_definition("checkout", 1, "digest-2", "p-1", b'{"two":2}')
        await store.save_definition("checkout", 2, "digest-1", "p-1", b'{"v":2}')

        assert await store.definition("checkout", 1, "digest-1") == TRICKY_TEXT
        assert await store.definition("checkout", 1, "digest-2") == b'{"two":2}'
        assert await store.definition("checkout", 2, "digest-1") == b'{"v":2}'
        assert await store.definition("checkout", 2, "digest-2") is None
        assert await store.definition("pack", 1, "digest-1") is None

        assert await store.definition("checkout", 1, "digest-1", policy="p-1") == b'{"old":1}'
        assert await store.definition("checkout", 1, "digest-1", policy="p-3") is None
        await store.save_definition("checkout", 1, "digest-1", "p-1", b'{"old":1}')
        assert await store.definition("checkout", 1, "digest-1") == b'{"old":1}'

    async def test_live_digests_count_the_runs_that_have_not_ended(self, store: Store) -> None:
        """P49"""
        assert list(await store.live_digests()) == []
        await mixed(store)
        await committed(store, replace(creation(7), digest="digest-2"))

        assert sorted(await store.live_digests()) == [
            ("checkout", 1, "digest-1", 1),
            ("checkout", 1, "digest-2", 1),
            ("checkout", 2, "digest-1", 1),
            ("pack", 1, "digest-1", 1),
            ("pack", 2, "digest-1", 1),
        ]

    async def test_ping_answers_while_the_store_is_open(self, store: Store) -> None:
        await store.ping()
        await store.close()
        await store.close()

        for call in (store.ping(), store.hosts(), store.write([creation()])):
            with pytest.raises(StoreUnavailable):
                await call

    async def test_survey_says_what_the_store_is(self, store: Store) -> None:
        survey = await store.survey()

        name, version = survey.engine.split(maxsplit=1)
        assert name.isalnum()
        assert version[0].isdigit()
        assert survey.bytes > 0
        assert survey.now is None or survey.now > 1_700_000_000_000

    async def test_schema_is_known_without_opening_the_store(self, store: Store, other: Store) -> None:
        await other.close()

        schema = await other.schema()

        assert schema.found in (0, schema.spoken)  # none: a store that lives in its process only
        assert schema.spoken > 0

    async def test_store_that_is_opened_again_has_everything(self, store: Store) -> None:
        run = await started(store)
        again = await self.crash(store)
        try:
            assert await row(again, run.rid) == run
        finally:
            await again.close()
