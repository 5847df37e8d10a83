"""Checkers of the exercises: each says what is wrong with a solution, or prints that it passed.

There is one module or folder per chapter; ``shared/`` has what several of them use. Start reading
in ``unequal.py``, the shortest, and ``shared/solution.py``.

A checker raises ``AssertionError`` with the reason, so that a notebook stops at a wrong solution
and tests can verify that it does. It does so also if the solution raises an error, returns the
wrong type of result, or does not end. If devices matter, the solution runs on the host first and
then on simulated GPUs, separate from those of the reader.
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
