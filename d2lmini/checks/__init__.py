"""Checkers of the exercises: each says what is wrong with a solution, or prints that it passed.

One module or folder a chapter, which imports it; ``shared/`` has what several of them use. Start
reading in ``unequal.py``, the shortest, and ``shared/solution.py``.

A checker raises ``AssertionError`` with the reason, so that a notebook stops at a wrong solution,
and tests can prove that it does. That holds, too, where the solution raises an error, returns
another kind of result than asked for, or does not end. Where devices matter, it is tried on the
host first and then on simulated GPUs, apart from those of the reader.
"""

from d2lmini.checks.scratch import (
    check_allreduce,
    check_evaluate,
    check_get_params,
    check_split_batch,
    check_train_batch,
)

__all__ = [
    "check_allreduce",
    "check_evaluate",
    "check_get_params",
    "check_split_batch",
    "check_train_batch",
]
