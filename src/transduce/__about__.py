"""The version of the package, in a module of its own: whoever needs the number imports nothing else."""

__version__ = "0.3.0.dev0"
