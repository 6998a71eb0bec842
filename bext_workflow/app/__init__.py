"""The composition root: the only place that knows every part."""

from __future__ import annotations

from bext_workflow.app.app import App

__all__ = ["App"]
