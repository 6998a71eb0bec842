"""The store in PostgreSQL: many hosts share the runs of one schema of one database.

`store` is the port's face; `connections` lends connections and makes transactions of them, `faults` says what their
errors mean. `write` with `columns` and `verdict`, `claims`, `acts`, `schedules` and `reading` each hold one part of the
port as functions over a connection; `wakeups` tells other hosts, and hears of them. The SQL stands in `sql/` by name
and in `migrations/` by number.
"""
