"""`python -m engram.hooks EVENT`: the same as `engram hook EVENT`, but starts faster."""

import sys

from engram.hooks.entry import main

if __name__ == "__main__":
    sys.exit(main())
