"""Checkers for the exercises of the chapter on experts.

Start reading in ``copies.py``: how copies of tokens are combined, and how many leave a node.
``routing.py`` is on which copies an expert takes, and on balance; ``gradients.py`` on the norm of
all gradients, ``idle.py`` on experts without tokens; ``memory.py`` on what a model holds, and
computes.
"""

from d2lmini.checks.experts.copies import check_combine, check_leaving
from d2lmini.checks.experts.gradients import check_clip_norm
from d2lmini.checks.experts.idle import check_mixture
from d2lmini.checks.experts.memory import check_needs
from d2lmini.checks.experts.routing import check_global_balance, check_keep

__all__ = [
    "check_clip_norm",
    "check_combine",
    "check_global_balance",
    "check_keep",
    "check_leaving",
    "check_mixture",
    "check_needs",
]
