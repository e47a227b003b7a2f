"""Run ``gnn-depth`` as ``python -m gnn_depth``."""

import sys

from gnn_depth.cli import main

if __name__ == "__main__":
    sys.exit(main())
