"""With ``--dist loadfile``, a test that kills its worker fails once, and those after it run.

pytest-xdist 3.8 would give it to one worker after the other until it starts no more of them.
"""

import pytest


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing
def pytest_xdist_make_scheduler(config, log):
    """Return a scheduler that gives the test that crashed to no other worker.

    None for other distributions.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Once(LoadFileScheduling):
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

    return Once(config, log)
