"""Text that plugins make, made fit to be kept: a `__repr__` may raise whatever it likes, or give lone surrogates."""

from __future__ import annotations

_MOST = 2_000


def plain(text: object, most: int = _MOST) -> str:
    """`text` as Unicode text without NUL, shortened in the middle to `most` characters."""
    try:
        written = str(text)
    except BaseException as error:
        written = f"<a {type(text).__name__} whose text raises {type(error).__name__}>"
    if len(written) > most:
        half = most // 2
        written = f"{written[:half]} … {written[-half:]}"
    return written.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def describe(value: object) -> str:
    """A short `repr`, for messages and evidence."""
    try:
        written = repr(value)
    except BaseException as error:
        written = f"<a {type(value).__name__} whose repr raises {type(error).__name__}>"
    return plain(written)
