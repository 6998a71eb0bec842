"""The journal's text: how events are written, and read back. A row is (kind, data): see `model.event`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from bext_workflow.model.event import Event, Fact
from bext_workflow.model.json import Document, dumps


def _kind_of(form: type[Fact]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", form.__name__).lower()


KINDS: dict[type, str] = {form: _kind_of(form) for form in Fact.__subclasses__()}
"""The journal's `kind` of each event class: `StepCompleted` is `step_completed`."""


def write_document(value: Any) -> Any:
    """How msgspec writes a `Document`, wherever it stands."""
    if isinstance(value, Document):
        return msgspec.Raw(value.text)
    raise NotImplementedError(type(value))


def read_document(form: type, value: Any) -> Any:
    """How msgspec reads a `Document`, wherever it stands."""
    if form is Document:
        return Document(dumps(value), value)
    raise NotImplementedError(form)


_encoder = msgspec.json.Encoder(enc_hook=write_document)
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(form, dec_hook=read_document) for form, kind in KINDS.items()
}


def kind_of(event: Event) -> str:
    """The journal's name for the event."""
    return KINDS[type(event)]


def encode(event: Event) -> bytes:
    """The `data` of the event's row."""
    return _encoder.encode(event)


def rows(events: Iterable[Event]) -> tuple[tuple[str, bytes], ...]:
    """The (kind, data) of each event, as the store takes them."""
    return tuple((KINDS[type(event)], _encoder.encode(event)) for event in events)


def decode(kind: str, data: bytes | str) -> Event:
    """The event of a row. Raises `KeyError` for a kind that this version does not know."""
    event: Event = _decoders[kind].decode(data)
    return event
