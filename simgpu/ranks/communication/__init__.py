"""Collectives and messages between ranks: values, times, and what may not be touched meanwhile.

Start reading in ``process_group.py`` and ``collective.py``.
"""
