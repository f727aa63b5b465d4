"""What operators need: keys, limits, metrics, the access log, and what connections may do."""
