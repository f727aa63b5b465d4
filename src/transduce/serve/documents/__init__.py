"""Documents that clients send: read once, kept in the store, translated in the background, and fetched later."""
