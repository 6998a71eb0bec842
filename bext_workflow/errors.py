"""Every exception that bext-workflow raises on purpose.

::

    BextError                     carries `message`, `mend`, `slug`
    ├── ConfigError               the config file: file, key path, reason, mend
    ├── DefinitionError           a workflow's definition cannot be served
    ├── PluginError               a plugin cannot be found, imported or trusted to be the one named
    ├── InvalidJson               a value that JSON, or this host, cannot carry; names the JSON path
    ├── UsageError                a call or a command that makes no sense as written
    ├── NotFound                  no such run, incident, workflow …
    ├── Conflict                  the state forbids it; says which state and what is allowed
    │   ├── StartKeyReused        the same start key with another start
    │   └── StoreBusy             another host drives this store
    ├── Gone                      it was here once and its time is over
    ├── Unavailable               the store or the host cannot answer now
    │   ├── StoreUnavailable      disk full, file gone, database down: try again later
    │   ├── NotMigrated           the store's schema is not the one that this code speaks
    │   └── TooManyRequests       the caller asks too often
    └── NotAllowed                the caller may not do that
        └── Unauthenticated       nobody knows who the caller is

    WorkflowError                 raised by plugin code: a definite failure of the step (semantics §2)

A user's mistake is always a `BextError`; faces print `message` and `mend` and never a traceback. Results that a
caller must handle as part of its normal work (a lost lease, a stale read) are values, not exceptions.
"""

from __future__ import annotations


class BextError(Exception):
    """Base of all errors that are meant for a person. `slug` names the problem type of the HTTP API."""

    slug = "error"

    def __init__(self, message: str, *, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message} — {self.mend}" if self.mend else self.message


class ConfigError(BextError):
    """`bext.config.toml` cannot be used. `where` is `file: key path`."""

    slug = "config-invalid"

    def __init__(self, reason: str, *, file: str = "", path: str = "", mend: str = "") -> None:
        self.file = file
        self.path = path
        self.reason = reason
        where = ": ".join(part for part in (file, path) if part)
        super().__init__(f"{where}: {reason}" if where else reason, mend=mend)


class DefinitionError(BextError):
    """A definition is not one that the host can run."""

    slug = "definition-invalid"


class PluginError(BextError):
    """A plugin named in the config cannot be used."""

    slug = "plugin-invalid"


class InvalidJson(BextError):
    """A value that must be JSON is not, or is over a limit. `path` is a JSON path such as `$.items[3].price`."""

    slug = "json-invalid"

    def __init__(self, reason: str, *, path: str = "$", mend: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}", mend=mend)


class UsageError(BextError):
    """The request makes no sense as written."""

    slug = "usage"


class NotFound(BextError):
    """There is nothing by that name."""

    slug = "not-found"


class Conflict(BextError):
    """The state of the thing forbids the act; the message holds both."""

    slug = "conflict"


class StartKeyReused(Conflict):
    """The same (workflow, key) with another context, tags or start time (semantics §6)."""

    slug = "start-key-reused"


class Gone(BextError):
    """It existed, and its time is over."""

    slug = "gone"


class Unavailable(BextError):
    """Not now; nothing was judged or lost."""

    slug = "unavailable"


class StoreUnavailable(Unavailable):
    """The store does not answer or does not take writes; the same call may succeed later."""

    slug = "store-unavailable"


class NotMigrated(Unavailable):
    """The store's schema is older or newer than this code."""

    slug = "not-migrated"


class TooManyRequests(Unavailable):
    """The caller asks too often; nothing was done. `retry_after_s`: when to ask again."""

    slug = "too-many-requests"

    def __init__(self, message: str, *, mend: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, mend=mend)
        self.retry_after_s = retry_after_s


class StoreBusy(Conflict):
    """Another process drives this store."""

    slug = "store-busy"


class NotAllowed(BextError):
    """The caller lacks the right."""

    slug = "not-allowed"


class Unauthenticated(NotAllowed):
    """The caller sends no token, or one that is not good."""

    slug = "unauthenticated"


class WorkflowError(Exception):
    """A definite failure of a step, raised by plugin code (semantics §2).

    `retryable=True` is a Retry by the step's policy, else the step fails and the run compensates (semantics §2).
    Raise it only when it is certain that the step has not acted: any other exception of a step that is not
    idempotent leaves the step in doubt.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable

    @classmethod
    def step_not_found(cls, step_name: str) -> WorkflowError:
        """The permanent failure for a step name that the plugin does not handle."""
        return cls(f"step not found: {step_name}")
