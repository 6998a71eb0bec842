"""Wait tokens: who holds one may answer the wait of one visit, once (semantics §9).

A token is the visit's key and its HMAC (RFC 2104, SHA-256), so that it can be mailed before the wait is durable and
nothing need be kept of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

SIGNED_WITH = "wait tokens"
"""The name under which the store keeps what signs them."""

_SIGNATURE_BYTES = 24


def mint(secret: bytes, key: str) -> str:
    """The token of the visit with that idempotency key."""
    return f"{_text(key.encode())}.{_text(_signature(secret, key))}"


def key_of(secret: bytes, token: str) -> str | None:
    """The key of the visit whose token this is; None if it is nobody's."""
    named, _, signed = token.partition(".")
    try:
        key = _bytes(named).decode()
        signature = _bytes(signed)
    except (ValueError, binascii.Error):
        return None
    return key if hmac.compare_digest(signature, _signature(secret, key)) else None


def _signature(secret: bytes, key: str) -> bytes:
    return hmac.new(secret, key.encode(), hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
