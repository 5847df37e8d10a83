"""Run a script once, and watch what it does on every rank.

``one_run.py`` runs it as ``simgpu run`` does. ``observer.py`` has hooks around public functions of
PyTorch and fills the dataclasses of ``records.py``: gradients and parameters are read by
``tensors.py``, what the loaders deliver by ``examples.py``.
"""
