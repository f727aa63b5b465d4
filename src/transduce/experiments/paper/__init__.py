"""The paper's tables, figures and claims, measured: the code behind `transduce paper`."""
