"""Text to subword ids and back."""
