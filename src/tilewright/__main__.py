"""`python -m tilewright`: the command line."""

import sys

from tilewright.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
