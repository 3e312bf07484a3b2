"""The tables of a store of results, and how an older one becomes a newer one.

``PRAGMA user_version`` holds how many of :data:`MIGRATIONS` a file has been through.  A published entry is never changed:
a new form is a new entry at the end.
"""

from __future__ import annotations

import sqlite3

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE results (
        id INTEGER PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,      -- of the row without its samples: the same result is kept once
        taken TEXT,                     -- UTC, ISO 8601
        operator TEXT NOT NULL,
        target TEXT NOT NULL,
        language TEXT NOT NULL,
        device TEXT,
        shape TEXT,                     -- JSON
        dtype TEXT,
        params TEXT,                    -- JSON
        schedule TEXT,
        evidence TEXT,
        correct INTEGER,
        error TEXT,                     -- its kind
        median_us REAL,
        ci_low_us REAL,
        ci_high_us REAL,
        launch_us REAL,
        end_to_end_us REAL,
        verdicts TEXT,                  -- JSON: peer -> verdict
        commit_id TEXT,                 -- of portakern
        source_hash TEXT,
        binary_hash TEXT,
        machine TEXT,
        origin TEXT NOT NULL,           -- '' for a result of this store, else the file it was imported from
        row TEXT NOT NULL               -- the whole row as JSON, without samples
    );
    CREATE INDEX results_by_operator ON results (operator, target, dtype, taken);
    CREATE INDEX results_by_taken ON results (taken);
    CREATE TABLE samples (
        result INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
        name TEXT NOT NULL,             -- 'portakern', or the peer
        count INTEGER NOT NULL,
        microseconds BLOB NOT NULL,     -- zlib of little-endian float64, in the order taken
        flags BLOB,                     -- zlib of uint8, one per sample, where the loop gave any
        PRIMARY KEY (result, name)
    );
    """,
    """
    CREATE TABLE searches (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        task TEXT NOT NULL,             -- JSON: operator, where it is found, target, dtype, shape, params, open sizes
        level TEXT NOT NULL,
        begun TEXT NOT NULL             -- UTC, ISO 8601
    );
    CREATE TABLE texts (
        hash TEXT PRIMARY KEY,
        source BLOB NOT NULL            -- zlib of UTF-8
    );
    CREATE TABLE trials (
        search INTEGER NOT NULL REFERENCES searches (id) ON DELETE CASCADE,
        candidate TEXT NOT NULL,        -- id: follows from text and entry
        number INTEGER NOT NULL,        -- in the order in which they were asked for
        text TEXT NOT NULL REFERENCES texts (hash),
        entry TEXT,
        note TEXT NOT NULL,
        move TEXT NOT NULL,
        meta TEXT NOT NULL,             -- JSON
        asked TEXT NOT NULL,            -- UTC, ISO 8601
        told TEXT,                      -- NULL while it is judged
        seconds REAL,
        row TEXT,                       -- the whole row as JSON, without samples
        PRIMARY KEY (search, candidate)
    );
    CREATE TABLE edges (
        search INTEGER NOT NULL REFERENCES searches (id) ON DELETE CASCADE,
        child TEXT NOT NULL,
        parent TEXT NOT NULL,           -- candidates; a parent may be of another search
        PRIMARY KEY (search, child, parent)
    );
    """,
    """
    CREATE TABLE tasks (
        hash TEXT PRIMARY KEY,
        what TEXT NOT NULL              -- JSON: portakern.jobs.spec.TaskSpec
    );
    CREATE TABLE jobs (
        digest TEXT PRIMARY KEY,        -- of task, text, entry, level and options: the same job is kept once
        number INTEGER NOT NULL,        -- in the order in which they were asked for
        task TEXT NOT NULL REFERENCES tasks (hash),
        target TEXT NOT NULL,
        text TEXT NOT NULL REFERENCES texts (hash),
        entry TEXT,
        level TEXT NOT NULL,
        options TEXT NOT NULL,          -- JSON: limit of time, peers
        asked TEXT NOT NULL,            -- UTC, ISO 8601
        begun INTEGER NOT NULL DEFAULT 0,   -- how often somebody began to judge it
        told TEXT,                      -- NULL while there is no row
        place TEXT,                     -- the node that judged it
        seconds REAL,
        row TEXT                        -- the whole row as JSON, without samples
    );
    CREATE INDEX jobs_open ON jobs (number) WHERE row IS NULL;
    """,
    """
    ALTER TABLE results ADD COLUMN schema INTEGER NOT NULL DEFAULT 1;   -- of the row as JSON: portakern.study.row_schema.SCHEMA
    """,
    """
    CREATE TABLE runs (
        name TEXT NOT NULL,
        result INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
        PRIMARY KEY (name, result)
    );
    """,
)


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Bring ``db`` to the newest form, in one transaction that another writer waits for.  ``db`` is in autocommit mode."""
    if version(db) >= len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version(db), len(MIGRATIONS)):  # read again: another process may have been first
            for statement in statements(MIGRATIONS[number]):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def statements(script: str) -> list[str]:
    """The statements of a script.  ``executescript`` would end the transaction."""
    found, text = [], ""
    for line in script.splitlines():
        text += line + "\n"
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found
