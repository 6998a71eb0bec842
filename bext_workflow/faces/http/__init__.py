"""The HTTP API: the service's protocols as resources (reference "HTTP API")."""
