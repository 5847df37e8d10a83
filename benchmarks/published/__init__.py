"""Predict published measurements: ``python -m benchmarks.published FILE.csv``.

Each family of tables is a module in ``families/`` that says what it is, by which columns it is
known, and how a row is predicted (`FAMILIES` in ``tables.py``); ``score.py`` says how far off the
predictions are, ``record.py`` keeps them, and ``page/`` shows them.
"""
