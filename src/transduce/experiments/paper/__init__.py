"""The paper's tables, figures and claims, measured: the code of `transduce paper`."""
