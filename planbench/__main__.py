"""``python -m planbench`` is the command ``planbench``."""

from __future__ import annotations

import sys

from planbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
