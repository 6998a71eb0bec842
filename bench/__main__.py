"""`python -m bench`: the host beside the limits of the machine, in one run, ratios first.

Each figure is the median of several rounds, with its range. `--only NAME` runs one part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import growth, load, postgres, startup, waiting
from bench.report import Figure, show

PARTS: dict[str, Callable[[Path, int], Sequence[Figure]]] = {
    "load": lambda folder, rounds: asyncio.run(load.measure(folder, rounds)),
    "growth": lambda folder, rounds: asyncio.run(growth.measure(folder, rounds)),
    "startup": startup.measure,
    "waiting": waiting.measure,
    "postgres": lambda folder, rounds: asyncio.run(postgres.measure(folder, rounds)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each figure (default: 5)")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go: the disk that is measured")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures here")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name, part in PARTS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory(dir=options.folder, prefix="bext-bench-") as folder:
                Path(folder).chmod(0o755)  # a database server works in it as another user
                print(f"… {name}", file=sys.stderr)
                figures += part(Path(folder), options.rounds)
    show(figures)
    if options.json is not None:
        options.json.write_text(json.dumps([figure.plain() for figure in figures], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
