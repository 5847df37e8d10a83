"""A library that keeps what belongs to a process, in every way that libraries do."""

import contextvars
import functools
import os

RANK = None  # a global that a function sets
SHARED = {}  # a cache in a dictionary
NAMES = []  # a registry
CURRENT = contextvars.ContextVar("CURRENT", default=None)


class Partial:
    """Keeps the state of all its instances in the class, and in a dictionary of the class."""

    rank = None
    _state = {}  # noqa: RUF012  (as libraries write it)


class Registry:
    """Keeps classes by name in an instance."""

    def __init__(self):
        self.classes, self.last = {}, None

    def register(self, kind):
        """Register a class."""
        self.classes[kind.__name__], self.last = kind.rank, kind.rank


REGISTRY = Registry()


@functools.lru_cache
def cached_rank():
    """Return the rank, which the environment is asked for once."""
    return int(os.environ["RANK"])


def counted(_count=[0]):  # noqa: B006
    """Return how often this has been called, which a default remembers."""
    _count[0] += 1
    return _count[0]


def set_state(rank):
    """Keep the rank in every way."""
    global RANK
    RANK = rank
    SHARED["rank"] = rank
    NAMES.append(rank)
    CURRENT.set(rank)
    Partial.rank = rank
    Partial.later = rank  # an attribute that was not there
    Partial._state["rank"] = rank
    REGISTRY.register(type(f"Of{rank}", (), {"rank": rank}))
    REGISTRY.register(type("OfAll", (), {"rank": rank}))
    os.environ["KEPT"] = str(rank)
    for _ in range(rank):
        counted()
    cached_rank()


def get_state():
    """Return what is kept."""
    return {
        "global": RANK,
        "dictionary": SHARED,
        "list": NAMES,
        "context variable": CURRENT.get(),
        "class": [Partial.rank, Partial.later, Partial._state],
        "registry": [REGISTRY.classes, REGISTRY.last],
        "environment": os.environ["KEPT"],
        "default": counted(),
        "cache": cached_rank(),
    }
