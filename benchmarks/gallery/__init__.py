"""Small runs that people published, step by step, and what `simgpu run` says of them.

The programs are those of the compiled pairs (``benchmarks/compiled/programs``), which have an
option for each change. ``runs.csv`` says what was published; ``runs.py`` reads it, ``record.py``
keeps what is simulated. ``python -m benchmarks.gallery`` runs all of it.
"""
