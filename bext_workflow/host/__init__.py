"""The host: what acts. It claims runs, calls plugins, commits what was decided, and stops in order."""
