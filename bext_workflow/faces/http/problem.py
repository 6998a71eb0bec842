"""Errors as RFC 9457 problems: one table from exception to status, one way to write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from fastapi import Response

from bext_workflow.errors import (
    BextError,
    Conflict,
    Gone,
    InvalidJson,
    NotAllowed,
    NotFound,
    StartKeyReused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from bext_workflow.faces.http.answer import respond

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:bext:problem:"
RETRY_AFTER_S = 1


class HostRefused(UsageError):
    """The Host header names none of this server's names: the request may come from a page that rebound its DNS name."""

    slug = "host-not-allowed"


class OriginRefused(NotAllowed):
    """A browser sent the request for a page of another origin."""

    slug = "origin-not-allowed"


class ContentTypeRefused(UsageError):
    """The body is not announced as JSON."""

    slug = "content-type-not-json"


class BodyTooLarge(UsageError):
    """The body is over the limit."""

    slug = "body-too-large"


class MethodRefused(UsageError):
    """The resource is there and does not know the method."""

    slug = "method-not-allowed"


class Unexpected(BextError):
    """A fault of the host itself; what it was stands in the host's log only."""

    slug = "unexpected"


STATUS: Mapping[type[BextError], int] = {
    BextError: 500,
    UsageError: 400,
    Unauthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    MethodRefused: 405,
    Conflict: 409,
    Gone: 410,
    BodyTooLarge: 413,
    ContentTypeRefused: 415,
    HostRefused: 421,
    InvalidJson: 422,
    StartKeyReused: 422,
    TooManyRequests: 429,
    Unavailable: 503,
}
"""The status of an error is that of the nearest of its bases."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One place in the body that is wrong; `pointer` is a JSON pointer as a URI fragment, such as `#/context/sku`."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error (RFC 9457). `type` is `urn:bext:problem:<slug>`; `mend` says what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    mend: str | msgspec.UnsetType = msgspec.UNSET
    errors: list[Fault] | msgspec.UnsetType = msgspec.UNSET


def problem_of(error: BextError) -> Problem:
    """The problem that a caller is shown for `error`."""
    return Problem(
        type=TYPE_PREFIX + error.slug,
        title=error.slug.replace("-", " ").capitalize(),
        status=_status_of(error),
        detail=error.message,
        mend=error.mend or msgspec.UNSET,
        errors=list(_faults(error)) or msgspec.UNSET,
    )


def problem_response(error: BextError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that failed with `error`."""
    problem = problem_of(error)
    return respond(
        msgspec.json.encode(problem),
        problem.status,
        media_type=MEDIA_TYPE,
        headers={**_headers_of(error), **(headers or {})},
    )


def _headers_of(error: BextError) -> Mapping[str, str]:
    """What HTTP wants beside the problem: when to ask again, and how to say who one is."""
    match error:
        case TooManyRequests():
            return {"Retry-After": str(error.retry_after_s)}
        case Unavailable():
            return {"Retry-After": str(RETRY_AFTER_S)}
        case Unauthenticated():
            return {"WWW-Authenticate": "Bearer"}
        case _:
            return {}


def slugs_of(status: int) -> Sequence[str]:
    """The problems of a status, by name."""
    return sorted({kind.slug for kind in _kinds(BextError) if _status(kind) == status})


def _kinds(base: type[BextError]) -> Iterator[type[BextError]]:
    """Those of the package: a program may have errors of its own."""
    if base.__module__.startswith("bext_workflow."):
        yield base
        for derived in base.__subclasses__():
            yield from _kinds(derived)


def _status_of(error: BextError) -> int:
    return _status(type(error))


def _status(kind: type[BextError]) -> int:
    return next(STATUS[base] for base in kind.__mro__ if base in STATUS)


def _faults(error: BextError) -> Iterator[Fault]:
    if isinstance(error, InvalidJson) and error.path != "$":
        yield Fault(pointer=_pointer(error.path), detail=error.reason)


_PATH_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _pointer(path: str) -> str:
    """`#/steps/0/name` of `$.steps[0].name`."""
    parts = (key or index for key, index in _PATH_PART.findall(path))
    return "#" + "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
