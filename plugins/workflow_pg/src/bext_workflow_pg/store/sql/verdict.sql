-- How the runs stand whose appends did not hold, each with the events that stand where the append's were to be.
-- name: standing
SELECT
    runs.rid, runs.fence, runs.seq, runs.inbox, runs.owner,
    ARRAY (
        SELECT ROW (at, kind, convert_to(data, 'UTF8')) FROM journal
        WHERE journal.rid = asked.rid AND journal.seq > asked.after AND journal.seq <= asked.upto ORDER BY journal.seq
    ) AS events
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (rid, after, upto, place)
LEFT JOIN runs ON runs.rid = asked.rid
ORDER BY asked.place;

-- What stands in the way of runs that were not created: one of the same id, with its first events, or a taken key.
-- name: begun
SELECT
    runs.rid, start_keys.run_id, start_keys.fingerprint, start_keys.removed_at,
    ARRAY (
        SELECT ROW (at, kind, convert_to(data, 'UTF8')) FROM journal
        WHERE journal.rid = runs.rid AND journal.seq <= asked.upto ORDER BY journal.seq
    ) AS events
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS asked (run_id, space, key, upto, place)
LEFT JOIN runs ON runs.run_id = asked.run_id
LEFT JOIN start_keys ON start_keys.space = asked.space AND start_keys.key = asked.key
ORDER BY asked.place;
