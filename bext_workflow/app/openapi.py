"""The description of the API, without a host: nothing of what it is made over is ever asked."""

from __future__ import annotations

from bext_workflow.client import HttpClient
from bext_workflow.faces.http.app import Services, described_app
from bext_workflow.faces.http.longpoll import LongPolls
from bext_workflow.model.access import ANONYMOUS, Caller
from bext_workflow.model.json import JsonObject
from bext_workflow.service.feed import Feed
from bext_workflow.service.protocols import Readiness


def describe_api() -> JsonObject:
    """The document that `/openapi.json` serves."""
    nowhere = HttpClient("http://127.0.0.1")
    given = Services(*(nowhere,) * 10, access=_Nobody(), host=_NoHost())
    return described_app(given, LongPolls(), metrics=str).openapi()


class _Nobody:
    async def guarded(self) -> bool:
        return False

    async def caller(self, bearer: str | None) -> Caller:
        return ANONYMOUS


class _NoHost:
    host_id = ""
    feed = Feed(kept=0)

    def readiness(self) -> Readiness:
        return Readiness(ready=False)
