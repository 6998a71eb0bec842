"""What host and plugin process tell one another: a line of JSON each, never code."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bext_workflow.errors import PluginError
from bext_workflow.host.told import CompleteEnd, StepEnd, UndoEnd, VerifyEnd
from bext_workflow.model.context import ContextView, Layers
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.journal import read_document, write_document
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.run import Beat, Completed, Mint, WorkflowRun, newest_first
from bext_workflow.model.schedule import ScheduleDefinition
from bext_workflow.model.status import WorkflowStatus

# From the host


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first line: which plugin this process is for. `serve` of false: it only says what the plugin has."""

    name: str
    source: str | None
    config: JsonObject | None
    data_dir: str
    store: str
    context_bytes: int
    serve: bool


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `WorkflowRun` without what only its host can do. `completed`: newest first."""

    run_id: str
    workflow: str
    version: int
    status: WorkflowStatus
    context: JsonObject
    step: str
    attempt: int
    visit: int
    idempotency_key: str
    completed: tuple[Completed, ...] = ()
    undo_data: Json = None
    failure: str | None = None
    item: Json = None
    index: int | None = None
    key: str | None = None
    tags: dict[str, str] = {}
    created_at: int = 0
    started_at: int | None = None
    updated_at: int = 0
    heartbeat_detail: Json = None


class Order(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The n-th call that this process is to make: which hook. `beats`: it may send heartbeats."""

    n: int
    hook: str
    run: Image
    beats: bool


class Minted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The wait token that was asked for, or why there is none."""

    n: int
    token: str = ""
    refused: str | None = None
    mend: str = ""


# From the plugin's process


class Described(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the plugin has."""

    distribution: str
    version: str
    entry_point: str
    hooks: tuple[str, ...]
    definitions: tuple[WorkflowDefinition, ...]
    schedules: tuple[ScheduleDefinition, ...]


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The plugin cannot be used."""

    reason: str
    mend: str

    @property
    def error(self) -> PluginError:
        return PluginError(self.reason, mend=self.mend)


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Its lifespan has begun: it takes calls."""


class Beaten(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A heartbeat of a call, perhaps of one that is over."""

    order: int
    detail: Json = None


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The n-th question of a call: the wait token of this visit, or of the next one of a step."""

    order: int
    n: int
    step: str | None


FromHost: TypeAlias = Start | Order | Minted
FromPlugin: TypeAlias = Described | Refused | Ready | Beaten | Asked | StepEnd | UndoEnd | VerifyEnd | CompleteEnd

_encoder = msgspec.json.Encoder(enc_hook=write_document)
_of_host = msgspec.json.Decoder[FromHost](FromHost)
_of_plugin = msgspec.json.Decoder[FromPlugin](FromPlugin, dec_hook=read_document)


def line(message: FromHost | FromPlugin) -> bytes:
    """The message as it is sent."""
    return _encoder.encode(message) + b"\n"


def from_host(text: bytes) -> FromHost:
    """What a host has sent. Raises `msgspec.MsgspecError`."""
    return _of_host.decode(text)


def from_plugin(text: bytes) -> FromPlugin:
    """What a plugin's process has sent. Raises `msgspec.MsgspecError`."""
    return _of_plugin.decode(text)


def image_of(run: WorkflowRun) -> Image:
    """The run as it is sent."""
    own = {name: getattr(run, name) for name in _SAME}
    return Image(
        **own,
        context=dict(run.context),
        completed=tuple(msgspec.structs.replace(one, before=None) for one in newest_first(run.completed)),
        tags=dict(run.tags),
    )


def run_of(image: Image, *, beat: Beat, mint: Mint) -> WorkflowRun:
    """The run as the plugin is given it."""
    own = {name: getattr(image, name) for name in _SAME}
    completed: Completed | None = None
    for one in reversed(image.completed):
        completed = msgspec.structs.replace(one, before=completed)
    context = ContextView(Layers(image.context))
    return WorkflowRun(**own, context=context, completed=completed, tags=image.tags, beat=beat, mint=mint)


_SAME = tuple(field for field in Image.__struct_fields__ if field not in ("context", "completed", "tags"))
