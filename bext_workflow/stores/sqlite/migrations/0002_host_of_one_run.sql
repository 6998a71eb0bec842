-- The one run that a host drives, for a command; NULL: all that it serves.
ALTER TABLE hosts ADD COLUMN only_run TEXT;
