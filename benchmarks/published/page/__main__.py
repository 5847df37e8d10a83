"""Writes the page: ``python -m benchmarks.published.page FOLDER``."""

import sys

from benchmarks.published.page.write import main

sys.exit(main())
