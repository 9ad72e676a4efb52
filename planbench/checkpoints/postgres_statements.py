"""What the PostgreSQL store says: nearly each statement is a transaction of its own.

``{runs}``, ``{events}`` and ``{leases}`` are put in as quoted names.
"""

from __future__ import annotations

from typing import Final

LOCK: Final = "SELECT pg_advisory_xact_lock(8101119497110981)"
"""Those who open a new database at the same moment make the tables in turn."""
SCHEMA: Final = "CREATE SCHEMA IF NOT EXISTS {schema}"
TABLES: Final = """
CREATE TABLE IF NOT EXISTS {runs} (
    run_id text PRIMARY KEY, head text, status text NOT NULL, started float8 NOT NULL,
    updated float8 NOT NULL, events bigint NOT NULL, last bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS {events} (
    run_id text NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (run_id, seq)
);
CREATE TABLE IF NOT EXISTS {leases} (
    run_id text PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, expires float8 NOT NULL
)
"""

# A lease is locked while its holder writes, so that nobody takes it in the middle. A
# locked row is read as it is after the wait; all else as it was when the statement began,
# so that an event in the way may be missing: whoever sees that asks again, alone.
APPEND: Final = """
WITH incoming AS MATERIALIZED (
    SELECT seq, body FROM unnest(%(seqs)s::bigint[], %(bodies)s::bytea[]) AS sent (seq, body)
), fence AS MATERIALIZED (
    SELECT token, expires FROM {leases} WHERE run_id = %(run)s FOR SHARE
), writer AS MATERIALIZED (
    SELECT CASE
        WHEN %(token)s::bigint IS NOT NULL
            AND NOT EXISTS (SELECT FROM fence WHERE token = %(token)s::bigint) THEN 'lost'
        WHEN %(token)s::bigint IS NULL AND EXISTS (
            SELECT FROM fence WHERE expires > extract(epoch FROM clock_timestamp())::float8
        ) THEN 'held'
        ELSE 'ok'
    END AS verdict
), run AS MATERIALIZED (
    SELECT last FROM {runs} WHERE run_id = %(run)s FOR UPDATE
), odd AS MATERIALIZED (
    SELECT incoming.seq, known.body
    FROM incoming LEFT JOIN {events} AS known
        ON known.run_id = %(run)s AND known.seq = incoming.seq
    WHERE incoming.seq <= (SELECT last FROM run) AND known.body IS DISTINCT FROM incoming.body
), fresh AS MATERIALIZED (
    SELECT seq, body FROM incoming
    WHERE seq > coalesce((SELECT last FROM run), 0)
        AND (SELECT verdict FROM writer) = 'ok' AND NOT EXISTS (SELECT FROM odd)
), added AS (
    INSERT INTO {events} (run_id, seq, body) SELECT %(run)s, seq, body FROM fresh
), changed AS (
    INSERT INTO {runs} AS known (run_id, head, status, started, updated, events, last)
    SELECT %(run)s, %(head)s::text, coalesce(%(status)s::text, 'running'), %(started)s::float8,
        %(updated)s::float8, (SELECT count(*) FROM fresh), %(last)s::bigint
    WHERE EXISTS (SELECT FROM fresh)
    ON CONFLICT (run_id) DO UPDATE SET
        head = coalesce(known.head, excluded.head),
        status = CASE
            WHEN %(status)s::text IS NOT NULL AND %(status_seq)s::bigint > known.last
            THEN excluded.status ELSE known.status END,
        updated = excluded.updated,
        events = known.events + excluded.events,
        last = excluded.last
)
SELECT writer.verdict, odd.seq, odd.body FROM writer LEFT JOIN odd ON true
"""

ALONE: Final = "SELECT last FROM {runs} WHERE run_id = %(run)s FOR UPDATE"
"""Said before APPEND in one transaction, it makes that see all that others have committed."""

READ: Final = """
SELECT run.events, event.seq, event.body
FROM {runs} AS run LEFT JOIN {events} AS event
    ON event.run_id = run.run_id AND event.seq > %(after)s
WHERE run.run_id = %(run)s ORDER BY event.seq
"""
RECORDS: Final = "SELECT run_id, head, status, started, updated, events FROM {runs}"
RECORD: Final = RECORDS + " WHERE run_id = %(run)s"

DELETE: Final = """
WITH fence AS (DELETE FROM {leases} WHERE run_id = %(run)s),
journal AS (DELETE FROM {events} WHERE run_id = %(run)s)
DELETE FROM {runs} WHERE run_id = %(run)s RETURNING run_id
"""
DELETE_ENDED: Final = """
WITH fence AS MATERIALIZED (
    SELECT expires FROM {leases} WHERE run_id = %(run)s FOR UPDATE
), gone AS (
    DELETE FROM {runs} WHERE run_id = %(run)s AND status = %(status)s AND events = %(events)s
        AND updated = %(updated)s::float8 AND NOT EXISTS (
            SELECT FROM fence WHERE expires > extract(epoch FROM clock_timestamp())::float8
        )
    RETURNING run_id
), journal AS (
    DELETE FROM {events} WHERE run_id IN (SELECT run_id FROM gone)
), freed AS (
    DELETE FROM {leases} WHERE run_id IN (SELECT run_id FROM gone)
)
SELECT run_id FROM gone
"""

ACQUIRE: Final = """
INSERT INTO {leases} AS known (run_id, owner, token, expires)
SELECT %(run)s, %(owner)s, (clock.now * 1000000)::bigint, clock.now + %(ttl)s::float8
FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
ON CONFLICT (run_id) DO UPDATE SET
    owner = excluded.owner, token = greatest(excluded.token, known.token + 1),
    expires = excluded.expires
WHERE known.owner = excluded.owner
    OR known.expires <= extract(epoch FROM clock_timestamp())::float8
RETURNING token, expires
"""
HOLD: Final = """
UPDATE {leases} SET expires =
    coalesce(extract(epoch FROM clock_timestamp())::float8 + %(ttl)s::float8, 0)
WHERE run_id = %(run)s AND token = %(token)s::bigint AND expires <> 0 RETURNING run_id
"""
LIVE: Final = """
SELECT owner, token, expires FROM {leases}
WHERE run_id = %(run)s AND expires > extract(epoch FROM clock_timestamp())::float8
"""
