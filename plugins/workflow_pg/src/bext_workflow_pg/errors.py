"""How a call of a service ends that does not work.

The difference that matters to a saga is whether the service may have acted: only of `Refused` and `Transient` is it
certain that it has not.
"""

from __future__ import annotations


class Refused(Exception):
    """The service said no. Nothing was done, and asking again does not help."""


class Transient(Exception):
    """The service could not answer now. Nothing was done; ask again later."""


class Unreachable(ConnectionError):
    """The connection broke: whether the service acted is unknown.

    The host reads a `ConnectionError` just so: a retry where the step is idempotent, in doubt where it is not.
    """


class NotALedger(Exception):
    """The file is something else than a ledger that this version can read."""
