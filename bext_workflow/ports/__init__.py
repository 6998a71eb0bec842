"""Protocols that the host needs of the world. Their docstrings are the specification for whoever implements them."""
