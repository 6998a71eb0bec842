"""Data: what a workflow is, what a step answers, what a run's journal says. No behaviour beyond its own rules."""
