"""Checkers of the capstone: plans for a job that is drawn from a name, a step, and five faults.

Start reading in ``cases.py``: `case_of` draws one of the jobs of ``jobs.py``. ``plans.py`` judges
plans for it, ``training.py`` a training step on several ranks. ``faults.py`` runs jobs in which
something is wrong, and ``diagnosis.py`` judges what a reader has found.
"""

from d2lmini.checks.capstone.cases import Case, Outcome, case_of
from d2lmini.checks.capstone.diagnosis import check_diagnose, faulty_runs, healthy_run
from d2lmini.checks.capstone.faults import Run
from d2lmini.checks.capstone.plans import check_cheapest, check_fast, check_fits
from d2lmini.checks.capstone.training import Task, check_train, draw_task

__all__ = [
    "Case",
    "Outcome",
    "Run",
    "Task",
    "case_of",
    "check_cheapest",
    "check_diagnose",
    "check_fast",
    "check_fits",
    "check_train",
    "draw_task",
    "faulty_runs",
    "healthy_run",
]
