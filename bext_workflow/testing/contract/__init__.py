"""`StoreContract`: every sentence of `ports.store`, as tests that a store's own suite inherits (asyncio_mode = "auto").

`SharedStoreContract` holds a store besides to what several hosts at once need of it, and `TellingStoreContract` one to
telling them what is new.

::

    class TestMyStore(StoreContract):
        async def open_store(self) -> Store: ...
"""

from __future__ import annotations

from bext_workflow.testing.contract.acts import ActsContract
from bext_workflow.testing.contract.appending import AppendingContract
from bext_workflow.testing.contract.approvals import ApprovalsContract
from bext_workflow.testing.contract.batches import BatchContract
from bext_workflow.testing.contract.driving import DrivingContract
from bext_workflow.testing.contract.incidents import IncidentsContract
from bext_workflow.testing.contract.listing import ListingContract
from bext_workflow.testing.contract.retention import RetentionContract
from bext_workflow.testing.contract.schedules import SchedulesContract
from bext_workflow.testing.contract.sharing import SharingContract
from bext_workflow.testing.contract.starting import StartingContract
from bext_workflow.testing.contract.tokens import TokensContract
from bext_workflow.testing.contract.wakeups import WakeupsContract
from bext_workflow.testing.contract.webhooks import WebhooksContract

__all__ = ["SharedStoreContract", "StoreContract", "TellingStoreContract"]


class StoreContract(
    StartingContract,
    AppendingContract,
    BatchContract,
    IncidentsContract,
    ApprovalsContract,
    DrivingContract,
    ActsContract,
    SchedulesContract,
    TokensContract,
    WebhooksContract,
    ListingContract,
    RetentionContract,
):
    """Subclass it under a name that pytest collects, and give it `open_store`; see `base.StoreCase` for what else."""


class SharedStoreContract(StoreContract, SharingContract):
    """For a store that several hosts may drive at once."""


class TellingStoreContract(SharedStoreContract, WakeupsContract):
    """For one that wakes them, too."""
