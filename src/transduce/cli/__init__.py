"""The command line: one thin module a command, each importing what it needs only when it runs."""
