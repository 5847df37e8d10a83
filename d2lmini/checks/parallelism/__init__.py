"""Checkers for the exercises of the chapter on automatic parallelism.

They run a solution on slow simulated GPUs, where kernels and copies take much longer than launches,
and read from the trace what waited for what. Start reading in ``products.py``; ``overlap.py`` adds
copies and the host, ``graphs.py`` a second GPU.
"""

from d2lmini.checks.parallelism.graphs import check_run_any_graph
from d2lmini.checks.parallelism.overlap import check_mean_of_squares, check_overlap
from d2lmini.checks.parallelism.products import check_products_on_streams, check_square_all

__all__ = [
    "check_mean_of_squares",
    "check_overlap",
    "check_products_on_streams",
    "check_run_any_graph",
    "check_square_all",
]
