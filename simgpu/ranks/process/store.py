"""The key-value store through which ranks find each other; waiting in it hands the scheduler on."""

import datetime

import torch.distributed as dist


class RankStore(dist.Store):
    """A `torch.distributed.Store` in a dictionary that all ranks share.

    PyTorch's own stores would wait for another rank in C++, and keep the scheduler for ever.

    Parameters
    ----------
    values : dict
        Shared by all ranks.
    scheduler : CooperativeScheduler
        That the ranks hand on.
    """

    def __init__(self, values, scheduler):
        super().__init__()
        self._values, self._baton = values, scheduler

    def set(self, key, value):
        """Set a value."""
        self._values[key] = _bytes(value)

    def get(self, key):
        """Return a value; wait until there is one."""
        self.wait([key])
        return self._values[key]

    def add(self, key, amount):
        """Add to a counter; return what it is then."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def append(self, key, value):
        """Append to a value."""
        self._values[key] = self._values.get(key, b"") + _bytes(value)

    def check(self, keys):
        """Whether all keys have values."""
        return all(key in self._values for key in keys)

    def wait(self, keys, timeout=None):
        """Let other ranks run until all keys have values."""
        self._baton.wait(lambda: self.check(keys), lambda: f"waits for {keys} in the store")

    def compare_set(self, key, expected, desired):
        """Set a value if it is `expected` (empty: or not there); return what it is then."""
        expected = _bytes(expected)
        if key not in self._values and expected:
            return expected
        if self._values.get(key, b"") == expected:
            self.set(key, desired)
        return self._values[key]

    def delete_key(self, key):
        """Remove a key; return whether it was there."""
        return self._values.pop(key, None) is not None

    def num_keys(self):
        """Return how many keys there are."""
        return len(self._values)

    deleteKey, getNumKeys = delete_key, num_keys  # noqa: N815  (by which C++ calls them)

    def multi_get(self, keys):
        """Return several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Set several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self):
        """Whether there are `append`, `multi_get` and `multi_set`."""
        return True

    def set_timeout(self, timeout):
        """Take note of nothing: a rank that can never go on is found at once."""

    @property
    def timeout(self):
        """PyTorch's default."""
        return datetime.timedelta(minutes=30)


def _bytes(value):
    return bytes(value) if isinstance(value, bytes | bytearray | list) else str(value).encode()
