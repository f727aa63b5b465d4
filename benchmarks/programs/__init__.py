"""Documents that other programs make, and what must be the same in their translations."""
