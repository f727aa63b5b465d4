"""Experiments with whole models: the tables and figures of the paper, ablations, sweeps, the demo."""
