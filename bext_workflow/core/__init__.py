"""The rules of a run, pure: `decide` what follows an input, `evolve` the state by an event, say what `work` is due.

Nothing here reads a clock, draws a number, opens a file or calls a plugin: it is handed what it needs.
"""
