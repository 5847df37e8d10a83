"""Which tests a command runs, and in which order; a plugin of pytest.

pyproject.toml says what the markers mean, the Makefile which command asks for which of them. What
it does not ask for is not imported if it is in `SLOW`, and else not built: most cases are of tests
that are marked `exhaustive`, and each of several workers would build all of them.
"""

import gc
import inspect
import re
from collections import Counter
from functools import cache
from itertools import product

import pytest
from _pytest.mark.expression import Expression
from support.paths import TESTS
from support.suite.scheduler import REAL_JOBS

FIRST = [  # what takes longest, so that parallel workers end together
    *REAL_JOBS,  # on one of the workers
    *("multiple-gpus.ipynb", "accuracies.ipynb", "pipeline-parallelism.ipynb"),
    *("test_built_book.py", "memory-and-sharding.ipynb", "tensor-parallelism.ipynb"),
    *("experts.ipynb", "long-sequences.ipynb", "putting-it-together.ipynb"),
    *("test_chapters_on_gpus.py", "test_pages.py", "test_another_day.py"),
]
SLOW = (  # folders and files whose tests run whole jobs: not for `make check`
    *("simgpu/compare", "simgpu/plan", "simgpu/programs", "simgpu/run", "simgpu/ranks/modules"),
    *("checks/capstone", "checks/one_job", "checks/split_models", "checks/test_checks_ddp.py"),
    *("checks/test_checks_collectives.py", "checks/test_checks_parallelism.py"),
    *("checks/test_checks_scratch.py", "checks/test_checks_bad_arguments.py"),
    *("simgpu/races/test_races_collectives", "simgpu/ranks/test_rank_clusters.py"),
    *("simgpu/ranks/test_rank_threads.py", "simgpu/hardware/test_calibrate.py"),
    *("benchmarks/test_benchmarks.py", "benchmarks/test_published.py"),
    *("benchmarks/test_sweeps.py", "benchmarks/test_trust_page.py"),
    *("book/test_front_page.py", "chapters/test_experts_page.py", "test_damaged_files.py"),
    *("editions/test_editions_of_the_book.py", "networks/test_whole_models.py"),
    *("test_training.py", "tools/test_figures.py"),
)
CELL_SECONDS = 400  # nbval gives up a cell before that, and shows where it was


@cache
def asks_for(expression, markers):
    """Return whether a command's -m takes tests that have some markers, and perhaps others."""
    words = set(re.findall(r"\w+", expression))
    others = sorted(words - markers - {"and", "or", "not"})
    worlds = (
        markers | {name for name, has in zip(others, having, strict=True) if has}
        for having in product([False, True], repeat=len(others))
    )
    asked = Expression.compile(expression).evaluate
    return not expression or any(asked(world.__contains__) for world in worlds)


def is_slow(path):
    """Return whether a file or folder is in `SLOW`."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix().startswith(SLOW)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage in what is imported: not meanwhile, nor in the tests that follow."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path, config):
    """Do not import what is slow for a command that leaves it out."""
    unasked = is_slow(collection_path) and not asks_for(config.option.markexpr, frozenset({"slow"}))
    return unasked or None  # None: ask others


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Build no case of a test whose markers the command leaves out."""
    if not inspect.isfunction(obj) or not name.startswith("test"):
        return None
    markers = {mark.name for mark in (*getattr(obj, "pytestmark", ()), *collector.iter_markers())}
    return None if asks_for(collector.config.option.markexpr, frozenset(markers)) else []


@pytest.hookimpl(tryfirst=True)  # before markers are selected
def pytest_collection_modifyitems(items):
    """Mark what drives a browser, what is slow, and what is a cell; put what is `FIRST` there.

    Of the cases of a test with the marker ``sample(n)``, all but every n-th are exhaustive.
    """
    cases = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if sample := item.get_closest_marker("sample"):
            if cases[test] % sample.args[0]:
                item.add_marker("exhaustive")
            cases[test] += 1
        if is_slow(item.path):
            item.add_marker("slow")
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if item.path.suffix == ".ipynb":
            item.add_marker("process")
            item.add_marker(pytest.mark.timeout(CELL_SECONDS))
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))
