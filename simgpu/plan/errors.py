"""How wrong predicted steps are: from published measurements, which ran as the same programs.

The numbers follow from the record ``records/published/predictions.json`` by the functions of
``benchmarks/published/orders.py``; the sources are on the page *How Far to Trust the Clock*. A test
compares them. Rows that a constant was fitted to are left out, and those with context parallelism:
these are too few for a band.
"""

from simgpu.units import quantity

SOURCE = "published steps"
# Measured over predicted time: nine of ten rows lie between the two.
TIME = (0.85, 1.35)
# The same for mixtures of experts.
TIME_EXPERTS = (0.65, 1.3)
# Published steps with context parallelism: how many, and the lowest and highest of their ratios.
CONTEXT_ROWS = 4
CONTEXT = (0.58, 1.87)
# Published peaks of memory of jobs with tensor parallelism or pipelines: the highest multiple.
MEMORY_SPLIT = 1.4
UNKNOWN = (
    f"context parallelism was compared with only {CONTEXT_ROWS} published steps, which took "
    f"{CONTEXT[0]:g} to {CONTEXT[1]:g} times what was predicted"
)
# If one of two plans for the same job is predicted to be slower by this share or more, it was
# slower in nineteen of twenty published pairs (in steps of 5 %).
COMPARED = 0.15
# The share of pairs in that order, of those predicted to differ by `COMPARED` to twice as much.
ORDER = 0.9


def band_of(experts, context=1):
    """Return between which multiples of the predicted time nine of ten published steps took.

    None with context parallelism among `context` ranks: too few steps with it were published.
    """
    if context > 1:
        return None
    return TIME_EXPERTS if experts else TIME


def has_band(plan):
    """Return whether published steps say how wrong the time of such plans is."""
    return band_of(None, plan.cp) is not None


def in_words(seconds, band) -> str:
    """Return how long a step may really take that is predicted to take `seconds`.

    Examples
    --------
    >>> in_words(1.0, (0.9, 1.35)).partition(": ")[2]
    'here 900 ms to 1.35 s'
    """
    if band is None:
        return UNKNOWN
    low, high = (quantity(seconds * bound, "s") for bound in band)
    return (
        f"nine of ten {SOURCE} took {band[0]:g} to {band[1]:g} times what was predicted: here "
        f"{low} to {high}"
    )
