"""What the service remembers beyond its process: glossaries, usage by key, documents. In SQLite or in PostgreSQL."""
