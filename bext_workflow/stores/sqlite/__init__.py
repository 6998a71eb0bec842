"""The embedded store: one SQLite file, one thread that writes, one that reads (architecture "Commit path").

`store` is the port's face; `worker` and `connection` carry it; `write`, `claims`, `acts` and `reading` each hold one
part of the port as plain functions over a connection; `seat` is the OS lock of the one host that drives. The SQL stands
in `sql/` by name and in `migrations/` by number.
"""
