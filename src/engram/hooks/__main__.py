"""`python -m engram.hooks EVENT` is what a client runs: the same as `engram hook EVENT`, and quicker."""

import sys

from engram.hooks.fast import main

if __name__ == "__main__":
    sys.exit(main())
