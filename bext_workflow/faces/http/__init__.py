"""The HTTP API: the service's protocols as resources (INTERFACES "HTTP API")."""
