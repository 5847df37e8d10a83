"""Which worker of ``--dist loadfile`` gets what.

A test that kills its worker fails once, and those after it run: pytest-xdist 3.8 would give it to
one worker after the other until it starts no more of them. And jobs of several real processes,
some of which wait for each other with a time limit, run one after the other on one worker.
"""

import pytest

REAL_JOBS = (
    *("multiple-gpus-concise.ipynb", "overlap-and-scaling.ipynb", "collectives.ipynb"),
    *("test_failures.py", "test_launch.py"),
)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing
def pytest_xdist_make_scheduler(config, log):
    """Return the scheduler; None for other distributions."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OnceAndApart(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "real jobs" if file.endswith(REAL_JOBS) else file

        def remove_node(self, node):
            pending = (
                (unit, test)
                for unit in self.assigned_work[node].values()
                for test, completed in unit.items()
                if not completed
            )
            unit, crashed = next(pending, (None, None))
            if unit is not None:
                unit[crashed] = True
            super().remove_node(node)
            return crashed

    return OnceAndApart(config, log)
