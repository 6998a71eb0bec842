"""The command line. Data goes to stdout, all else to stderr; what a command prints as JSON is the HTTP resource."""
