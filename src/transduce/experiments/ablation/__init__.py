"""Ablations: variations of one configuration, trained and measured in the same way and compared (§6.2, Table 3)."""
