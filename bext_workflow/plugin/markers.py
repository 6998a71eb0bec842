"""The pluggy markers of this project."""

from __future__ import annotations

import pluggy

PROJECT = "bext_workflow"
"""The pluggy project and the entry point group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
