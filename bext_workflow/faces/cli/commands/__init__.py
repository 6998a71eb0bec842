"""The commands; each module is loaded when one of its commands is called (`tree`)."""
