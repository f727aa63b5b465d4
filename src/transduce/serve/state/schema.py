"""The tables, as migrations: a database of schema n gets the statements of all migrations after the n-th.

A migration that was released is never edited: what changes later is a further one. SQLite and PostgreSQL understand the
statements alike.
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE glossaries (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
            entries TEXT NOT NULL, created DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX glossaries_by_owner ON glossaries (owner, created)",
        """CREATE TABLE usage_by_day (
            owner TEXT NOT NULL, day TEXT NOT NULL, characters BIGINT NOT NULL, PRIMARY KEY (owner, day))""",
        """CREATE TABLE jobs (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, status TEXT NOT NULL,
            progress DOUBLE PRECISION NOT NULL, payload TEXT NOT NULL, message TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX jobs_by_status ON jobs (status, created)",
    ),
    (
        "DROP TABLE jobs",  # which nothing has used
        """CREATE TABLE documents (
            id TEXT PRIMARY KEY, protocol TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL,
            target TEXT NOT NULL, options TEXT NOT NULL, segments BIGINT NOT NULL, characters BIGINT NOT NULL,
            bytes BIGINT NOT NULL, state TEXT NOT NULL, segments_done BIGINT NOT NULL, characters_done BIGINT NOT NULL,
            warnings TEXT NOT NULL, message TEXT NOT NULL, attempts BIGINT NOT NULL, runner TEXT NOT NULL,
            leased_until DOUBLE PRECISION NOT NULL, created DOUBLE PRECISION NOT NULL,
            expires DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX documents_by_state ON documents (state, created)",
        "CREATE INDEX documents_by_expiry ON documents (expires)",
        # To SQLite the name of the type means nothing: it stores the bytes as they are.
        """CREATE TABLE document_chunks (
            document TEXT NOT NULL, part TEXT NOT NULL, number BIGINT NOT NULL, content BYTEA NOT NULL,
            PRIMARY KEY (document, part, number))""",
    ),
    (
        # A glossary has several dictionaries. Its own one of earlier versions becomes the first.
        """CREATE TABLE dictionaries (
            glossary TEXT NOT NULL, number BIGINT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
            entries TEXT NOT NULL, PRIMARY KEY (glossary, source, target))""",
        "INSERT INTO dictionaries SELECT id, 0, source, target, entries FROM glossaries",
        *(f"ALTER TABLE glossaries DROP COLUMN {name}" for name in ("source", "target", "entries")),
    ),
)
