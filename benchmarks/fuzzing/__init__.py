"""Hostile input for the command line: four kinds of case, one runner, one judge. `benchmarks/fuzz.py` runs them."""
