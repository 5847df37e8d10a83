"""What the checkers of several chapters share.

Start reading in ``solution.py``: `checker` makes a checker, which calls the reader's function
through a `Solution`, isolated from the reader's state (``apart.py``) and for a limited time
(``time_limit.py``); ``ranks.py`` does this on several simulated ranks. ``results.py`` extracts
numbers and tensors from results. ``slow_machine.py`` is hardware on which a trace shows what waited
for what.
"""
