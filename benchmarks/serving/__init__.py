"""What `benchmarks/serve.py` is made of: the load generator, the processes it measures, and the scenarios."""
