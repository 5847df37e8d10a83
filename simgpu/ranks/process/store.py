"""The key-value store of the rendezvous; waiting for a key runs other ranks."""

import datetime
import math

import torch.distributed as dist

from simgpu import user_frame
from simgpu.clock.current import current_machine
from simgpu.clock.streams import POLL_SECONDS

_NO_LIMIT = datetime.timedelta(minutes=30)  # PyTorch's default


class Contents(dict):
    """The values of a store that ranks share, and since when each key has had one."""

    def __init__(self):
        super().__init__()
        self.since = {}  # in simulated seconds

    def __setitem__(self, key, value):
        self.since.setdefault(key, current_machine().host)
        super().__setitem__(key, value)

    def pop(self, key, default=None):
        """Remove a key; return its value."""
        self.since.pop(key, None)
        return super().pop(key, default)


class Stores:
    """The stores of one `spawn`.

    Attributes
    ----------
    default : Contents
        Those of the store by which `init_process_group` finds the other ranks.
    servers, files : dict
        Those that programs make: `Server` by port, and contents by path.
    made : list
        All of these, which live until the ranks end.
    """

    def __init__(self):
        self.default, self.servers, self.files, self.made = Contents(), {}, {}, []


class RankStore(dist.Store):
    """A `torch.distributed.Store` in a dictionary that all ranks share.

    PyTorch's own stores would block in C++, and never let another rank run.

    Parameters
    ----------
    values : Contents
        The contents, shared by all ranks.
    scheduler : CooperativeScheduler
        The scheduler of the ranks.
    timeout : datetime.timedelta, optional
        How long `get` and `wait` take at most, in simulated time; default: a wait without an end is
        a deadlock, which is an error at once.

    Only time limits that the program itself gives count. PyTorch passes some of its own, and would
    go on waiting after them.
    """

    def __init__(self, values, scheduler, timeout=None):
        super().__init__()
        self._values, self._scheduler = values, scheduler
        super().set_timeout(timeout or _NO_LIMIT)  # in C++, where a `PrefixStore` sets it

    def set(self, key, value):
        """Set a value."""
        self._values[key] = _bytes(value)

    def get(self, key):
        """Return a value; wait until it is set."""
        self.wait([key])
        return self._values[key]

    def add(self, key, amount):
        """Add to a counter; return its new value."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def append(self, key, value):
        """Append to a value."""
        self._values[key] = self._values.get(key, b"") + _bytes(value)

    def check(self, keys):
        """Return whether all keys are set; if not, it takes a microsecond and runs other ranks."""
        if self._has(keys):
            return True
        current_machine().host += POLL_SECONDS
        self._scheduler.wait(lambda: self._has(keys), lambda: "polls the store", must_wait=False)
        return self._has(keys)

    def _has(self, keys):
        return all(key in self._values for key in keys)

    def wait(self, keys, timeout=None):
        """Run other ranks until all keys are set.

        Raises
        ------
        torch.distributed.DistStoreError
            If that takes longer than `timeout`, in simulated time.
        """
        if timeout is None or not user_frame.calls_directly():
            timeout = super().timeout
        if timeout == _NO_LIMIT:
            self._scheduler.wait(lambda: self._has(keys), lambda: _describe(keys))
            return
        machine, since = current_machine(), self._values.since
        deadline = machine.host + timeout.total_seconds()
        in_time = self._scheduler.wait(
            lambda: all(since.get(key, math.inf) <= deadline for key in keys),
            lambda: _describe(keys),
            deadline=deadline,
        )
        end = max((since[key] for key in keys), default=0.0) if in_time else deadline
        machine.wait_until(end, "wait for the store")
        if not in_time:
            milliseconds = round(timeout.total_seconds() * 1e3)
            raise dist.DistStoreError(
                f"wait timeout after {milliseconds}ms, keys: {', '.join(keys)}"
            )

    def compare_set(self, key, expected, desired):
        """Set a value if it equals `expected` (empty: or is unset); return the resulting value."""
        expected = _bytes(expected)
        if key not in self._values and expected:
            return expected
        if self._values.get(key, b"") == expected:
            self.set(key, desired)
        return self._values[key]

    def delete_key(self, key):
        """Delete a key; return whether it was set."""
        return self._values.pop(key, None) is not None

    def num_keys(self):
        """Return the number of keys."""
        return len(self._values)

    deleteKey, getNumKeys = delete_key, num_keys  # noqa: N815  (the names that C++ calls)

    def multi_get(self, keys):
        """Return several values; wait until all are set."""
        self.wait(keys)
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Set several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self):
        """Return True: `append`, `multi_get` and `multi_set` exist."""
        return True

    def set_timeout(self, timeout):
        """Set the time limit of `get` and `wait`, if the program does."""
        if user_frame.calls_directly():
            super().set_timeout(timeout)


def _describe(keys):
    return f"waits for {keys} in the store"


def _bytes(value):
    return bytes(value) if isinstance(value, bytes | bytearray | list) else str(value).encode()
