"""What single values of the config must be like. A check returns the value or raises a `refusal`."""

from __future__ import annotations

import difflib
import ipaddress
import re
from typing import NamedTuple
from zoneinfo import available_timezones

from pydantic_core import PydanticCustomError

from bext_workflow.config.secrets import is_secret
from bext_workflow.errors import ConfigError, InvalidJson
from bext_workflow.model.cron import CRON_RULE, Cron, zone_of
from bext_workflow.model.json import Json, JsonObject, verify
from bext_workflow.model.names import END, NAME_RULE, is_name
from bext_workflow.model.schema import schema_fault
from bext_workflow.plugin.source import distribution_of

_ERROR_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]{0,252}[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]{2,45}\]?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]+:.+")


class Fault(NamedTuple):
    """What is wrong with a value, and what to do."""

    reason: str
    mend: str


class Address(NamedTuple):
    """Where the HTTP API listens; port 0 takes a free one."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_loopback(self.host)


def refusal(reason: str, mend: str) -> PydanticCustomError:
    """An error of one value, in words that stand after its key path. Both texts reach the reader as they are."""
    return PydanticCustomError("refused", "{reason}", {"reason": reason, "mend": mend})


def check_name(name: str) -> str:
    if not is_name(name):
        raise refusal(f"{name[:120]!r} is not a name", f"use {NAME_RULE}")
    return name


def check_step_name(name: str) -> str:
    if name == END:
        raise refusal(f"{END!r} cannot name a step", f'"{END}" is the next that finishes a run')
    return check_name(name)


def check_text(text: str) -> str:
    if "\0" in text:
        raise refusal("holds a NUL character", "take it out")
    return text


def check_error_name(name: str) -> str:
    if not _ERROR_NAME.fullmatch(name):
        raise refusal(
            f"{name[:120]!r} names no exception class", 'write "TimeoutException" or "httpx.TimeoutException"'
        )
    return name


def check_source(source: str) -> str:
    try:
        distribution_of(source)
    except ValueError as error:
        raise refusal(str(error), 'write "@scope/name" or the name of a distribution, never a path or a URL') from None
    return source


def check_store(store: Json) -> Json:
    """A URL, or a secret that holds one: that is looked at once it is resolved."""
    if is_secret(store):
        return store
    if not isinstance(store, str):
        raise refusal("is neither a URL nor a secret", 'write "sqlite:bext.db", or { env = "DATABASE_URL" }')
    fault = store_fault(store)
    if fault is not None:
        raise refusal(f"{shown_store(store)[:120]!r} {fault.reason}", fault.mend)
    return store


def store_fault(url: str) -> Fault | None:
    """What is wrong with the URL of a store, in words that do not repeat it."""
    if not _SCHEME.fullmatch(url):
        return Fault("is not the URL of a store", 'write "sqlite:bext.db" for a file')
    if url.startswith("sqlite://"):
        return Fault("has slashes that belong to no path", 'write "sqlite:PATH", such as "sqlite:bext.db"')
    return None


def shown_store(url: str) -> str:
    """The URL of a store as people may see it: without its password, and without options, which may hold one too."""
    if url.startswith("sqlite:"):
        return url
    scheme, slashes, rest = url.rpartition("://")
    address, _, _ = rest.partition("?")
    login, at, place = address.rpartition("@")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{place}"


def check_cron(line: str | None) -> str | None:
    if line is not None:
        try:
            Cron(line, "UTC")
        except ValueError as error:
            raise refusal(str(error), f'write {CRON_RULE}, such as "30 2 * * *"') from None
    return line


def check_timezone(name: str) -> str:
    try:
        zone_of(name)
    except ValueError as error:
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        raise refusal(str(error), f"did you mean {near[0]!r}?" if near else 'write "Europe/Madrid", or "UTC"') from None
    return name


def check_listen(text: str) -> str:
    try:
        parse_listen(text)
    except ConfigError as error:
        raise refusal(error.reason, error.mend) from None
    return text


def parse_listen(text: str) -> Address:
    """The address in `127.0.0.1:7420`, `localhost:7420` or `[::1]:7420`. Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65_535:
        raise ConfigError(f"{text[:120]!r} is not an address", path="listen", mend='write "127.0.0.1:7420"')
    bare = host.removeprefix("[").removesuffix("]")
    return Address(bare, int(port))


def one_or_several(value: Json) -> Json:
    """A step name, or a list of them."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise refusal("is neither a step name nor a list of them", 'write next = "pack", or next = ["a", "b"] for a fork')


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host_name(name: str) -> str:
    if not _HOST_NAME.fullmatch(name):
        raise refusal(f"{name[:120]!r} is not the name of a host", 'write "bext.example.org", without a port')
    return name


def check_network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise refusal(f"{text[:120]!r} is no network: {error}", 'write "10.0.0.0/8", or one address') from None
    return text


def check_schema(schema: JsonObject) -> JsonObject:
    try:
        verify(schema)
    except InvalidJson as error:
        raise refusal(f"at {error.path}: {error.reason}", "use plain values") from None
    fault = schema_fault(schema)
    if fault is not None:
        raise refusal(f"is no JSON Schema: {fault}", "see json-schema.org, draft 2020-12")
    return schema
