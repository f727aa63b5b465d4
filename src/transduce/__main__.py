"""`python -m transduce`: the command line, for launchers that start modules (`torchrun -m transduce train ...`)."""

import sys

from transduce.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
