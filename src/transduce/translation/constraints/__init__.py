"""What translations must and must not contain: terms, glossaries, forbidden phrases, prefixes."""
