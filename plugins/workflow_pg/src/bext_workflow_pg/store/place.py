"""The URL of a store, as people may see it."""

from __future__ import annotations


def shown(url: str) -> str:
    """The URL without its password and without options, which may hold one too."""
    scheme, slashes, rest = url.partition("://")
    address, _, _ = rest.partition("?")
    login, at, place = address.rpartition("@")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{place}"
