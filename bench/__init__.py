"""Measurements: ratios against the raw store in the same run. Never a test; see `docs/performance.md`."""
