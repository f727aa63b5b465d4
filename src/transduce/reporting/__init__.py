"""What reports are made of: tables, charts, and the machine that measured."""
