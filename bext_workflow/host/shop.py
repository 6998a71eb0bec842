"""What all drivers of a host share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from bext_workflow.core.input import Late
from bext_workflow.host.committer import Committer
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.invoke import Invoker
from bext_workflow.host.lease import Lease
from bext_workflow.host.outbox import Outbox
from bext_workflow.host.threads import Threads
from bext_workflow.host.transactions import Transactions
from bext_workflow.host.trouble import Trouble
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.store import Store
from bext_workflow.ports.telemetry import Telemetry
from bext_workflow.service.definitions import Definitions
from bext_workflow.service.feed import Feed


class Shop(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of the drivers. `suspects` lets one suspect of poisoning be driven at a time.

    `trouble` is what stands between host and store.

    `moved(run_id, status)` hears of every status that a waiting caller may want; `late(run_id, late)` of a result that
    came after its attempt was given up; `adopt(run_id)` of a run's child or parent that has something to do.
    `mint(key)` makes the wait token of a visit.
    """

    lease: Lease
    store: Store
    committer: Committer
    invoker: Invoker
    threads: Threads
    transactions: Transactions
    deadlines: Deadlines
    clock: Clock
    chance: Chance
    telemetry: Telemetry
    context_bytes: int
    trouble: Trouble
    suspects: asyncio.Lock
    draining: asyncio.Event
    moved: Callable[[str, WorkflowStatus], None]
    late: Callable[[str, Late], None]
    definitions: Definitions
    adopt: Callable[[str], None]
    mint: Callable[[str], str]
    outbox: Outbox
    feed: Feed
