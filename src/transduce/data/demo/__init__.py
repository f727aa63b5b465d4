"""What the demo corpus is made of: CLDR formatting, value slots, German forms, carrier phrases."""
