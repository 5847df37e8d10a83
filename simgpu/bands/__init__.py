"""How wrong a predicted step is: a band for each kind of run, from published measurements.

Start with ``kinds.py`` (what kind a run is of, and which kinds are taken together) and ``find.py``
(the band of a kind, and the words for it). The numbers are in ``bands.csv``, which
``python -m benchmarks.published.page`` writes from the records; nothing here computes them.
"""
