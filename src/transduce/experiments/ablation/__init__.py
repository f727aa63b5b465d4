"""Ablations: variations of one configuration, trained alike, measured alike and set side by side (§6.2, Table 3)."""
