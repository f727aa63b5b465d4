"""From text to text: translators, what surrounds their search, and files of any length."""
