"""The service: what a person or a program may ask of the runs, whatever face it comes through."""
