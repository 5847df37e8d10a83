"""What the checkers of several chapters share.

Start reading in ``solution.py``: `checker` makes a checker, whose calls of the reader's function go
through a `Solution`. That one is tried apart from what the reader has (``apart.py``) and for a
limited time (``time_limit.py``); ``results.py`` takes numbers and tensors out of what it returns.
``slow_machine.py`` is hardware on which a trace shows what waited for what.
"""
