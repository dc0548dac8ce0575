"""Run a PyTorch program on Facula: `python -m facula program.py arguments`."""

import sys

from facula.compat.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
