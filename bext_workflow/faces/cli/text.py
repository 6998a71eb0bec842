"""What runs and plugins say is not trusted: a terminal gets their words, never their escape sequences."""

from __future__ import annotations

import os
import re
from typing import TextIO

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI, which moves the cursor and colours
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS and their kind, which set titles and links
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")
_UNESCAPED_BY_JSON = re.compile(f"[\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")


def plain(text: str) -> str:
    """The text without escape sequences, control characters and changes of direction; lines and tabs stay."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """`plain`, with all white space drawn together."""
    return " ".join(plain(text).split())


def inert_json(text: str) -> str:
    """The same JSON value, with the characters escaped that JSON lets pass and a terminal may obey."""
    return _UNESCAPED_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR says no, FORCE_COLOR yes, a dumb terminal no; else a terminal is asked for."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()
