"""What turns token ids into token ids."""
