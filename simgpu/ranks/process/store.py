"""The key-value store of the rendezvous; waiting for a key runs other ranks."""

import datetime

import torch.distributed as dist


class RankStore(dist.Store):
    """A `torch.distributed.Store` in a dictionary that all ranks share.

    PyTorch's own stores would block in C++, and never let another rank run.

    Parameters
    ----------
    values : dict
        The contents, shared by all ranks.
    scheduler : CooperativeScheduler
        The scheduler of the ranks.
    """

    def __init__(self, values, scheduler):
        super().__init__()
        self._values, self._scheduler = values, scheduler

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
        """Return whether all keys are set."""
        return all(key in self._values for key in keys)

    def wait(self, keys, timeout=None):
        """Run other ranks until all keys are set."""
        self._scheduler.wait(lambda: self.check(keys), lambda: f"waits for {keys} in the store")

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
        """Return several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Set several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self):
        """Return True: `append`, `multi_get` and `multi_set` exist."""
        return True

    def set_timeout(self, timeout):
        """Do nothing: deadlocks are detected without a timeout."""

    @property
    def timeout(self):
        """PyTorch's default timeout."""
        return datetime.timedelta(minutes=30)


def _bytes(value):
    return bytes(value) if isinstance(value, bytes | bytearray | list) else str(value).encode()
