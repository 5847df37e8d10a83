"""Each rank's own modules, and its own values in modules that exist once: Note [Own modules].

Start reading in ``own_modules.py``. The rule of what ranks share is in ``shared_modules.py``.
"""
