"""What the service remembers beyond its process: glossaries, usage by key, jobs. In SQLite or in PostgreSQL."""
