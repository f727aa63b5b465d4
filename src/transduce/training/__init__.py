"""Training as in §5: loss, schedule, batches, the loop, checkpoints, averaging."""
