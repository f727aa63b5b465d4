"""Documents that clients send: read once, kept in the store, translated beside all other work, and fetched later."""
