"""The option ``--loader``: what a batch of the script's data loader costs."""

from dataclasses import dataclass

from simgpu.rates_and_sizes import short_time
from simgpu.units import quantity

OFF, MEASURED = "off", "measured"


@dataclass(frozen=True)
class Choice:
    """How the data loader counts.

    Attributes
    ----------
    watches : bool
        Whether batches are measured.
    counts : bool
        Whether the simulated GPUs wait for them.
    seconds : float, optional
        What each batch takes, if that is given.
    """

    watches: bool
    counts: bool
    seconds: float | None = None

    def __str__(self):
        if self.seconds is not None:
            return quantity(self.seconds, "s").replace(" ", "")
        return MEASURED if self.counts else OFF

    @property
    def source(self):
        """Where its seconds come from, in words."""
        return "measured on this machine" if self.watches else "as given"


def parse(text) -> Choice:
    """Return what ``--loader`` says; without it, batches are measured, but do not count.

    Times of simulated steps are the same in every run and on every machine, and measured ones are
    not: so nobody gets these without asking.

    Parameters
    ----------
    text : str or None

    Raises
    ------
    ValueError
        If it is neither a word nor a time.

    Examples
    --------
    >>> parse("0.8ms").seconds, parse("measured").counts, parse(None).counts
    (0.0008, True, False)
    """
    if text in (None, OFF, MEASURED):
        return Choice(watches=text != OFF, counts=text == MEASURED)
    try:
        seconds = short_time(text)
    except ValueError:
        raise ValueError(
            f"--loader {text}: give {OFF}, {MEASURED}, or what each batch takes, such as 0.8ms"
        ) from None
    return Choice(watches=False, counts=True, seconds=seconds)
