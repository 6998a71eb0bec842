"""`bext.config.toml`: found, read and checked; every error names file, key path, reason and mend."""

from __future__ import annotations

from bext_workflow.config.loading import Config, effective, load_config
from bext_workflow.config.problems import ConfigProblems
from bext_workflow.config.reading import FILE_NAME, find_config
from bext_workflow.config.values import Address, parse_listen, shown_store

__all__ = [
    "FILE_NAME",
    "Address",
    "Config",
    "ConfigProblems",
    "effective",
    "find_config",
    "load_config",
    "parse_listen",
    "shown_store",
]
