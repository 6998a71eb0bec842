"""`demo`: the checkout saga in a folder of its own, with a host that may be killed under it."""
