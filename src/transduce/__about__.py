"""The version of the package, in a module of its own: whoever needs the number imports nothing else."""

__version__ = "0.2.0"
