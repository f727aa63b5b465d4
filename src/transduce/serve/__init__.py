"""The HTTP service: it keeps models loaded and answers translation requests."""
