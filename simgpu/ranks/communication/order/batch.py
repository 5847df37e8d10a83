"""Calls that NCCL gets as one, between ``ncclGroupStart`` and ``ncclGroupEnd``."""


class Batch:
    """The calls of one rank that are handed over together, such as a `batch_isend_irecv`.

    Its messages run in one kernel: they start together, in any order.

    Parameters
    ----------
    num_calls : int, optional
        How many calls belong to it; by default all up to the end of the block that coalesces them.
    """

    def __init__(self, num_calls=None):
        self._left = num_calls
        self.started = False  # whether it has calls
        self.works = []  # of all its calls, if their number is not known before
        self.ready = 0.0  # when the last of its calls so far was issued, in seconds
        self.after = None  # when the work before it in its stream ended, once one of them has run

    def add(self, work) -> None:
        """Add the work of a call that has been issued."""
        self.started = True
        if self._left is None:  # else its works, which know it, would keep each other alive
            self.works.append(work)

    def count(self) -> bool:
        """Count a call; return whether it is the last one."""
        if self._left is not None:
            self._left -= 1
        return self._left == 0
