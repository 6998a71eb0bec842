"""The URL of a store, as people may see it."""

from __future__ import annotations

from urllib.parse import urlsplit


def shown(url: str) -> str:
    """The URL without its password and without options, which may hold one too."""
    parts = urlsplit(url)
    user, at, address = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{address}{parts.path}"
