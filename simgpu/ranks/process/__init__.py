"""What makes a thread look like a process: one runs at a time, with global state of its own.

Start reading in ``scheduler.py``.
"""
