"""Families of published tables: how a row is read, and what is predicted of it.

A family is a module, or a class of one, with ``TITLE`` (its name on the page), ``COLUMNS`` (those
of its tables, by which they are recognised), ``FITTED`` (what was chosen with its rows, and what is
assumed) and ``predict(row)``, which returns a `Prediction` or raises `UnpredictableError`. Start
reading in ``gpt2.py``, one of the shortest; ``tables.py`` lists all of them.
"""
