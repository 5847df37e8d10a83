"""Checkers of estimates of the time of a data-parallel step."""

import math
from dataclasses import dataclass

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker


@dataclass(frozen=True)
class Case:
    """A minibatch and hardware for which each mistake gives a different number."""

    k: int
    batch_size: int
    rate: float  # images per second of one GPU
    nbytes: float
    bandwidth: float
    latency: float

    def __str__(self):
        """Return a description for messages."""
        return (
            f"k={self.k}, {self.batch_size} images at {self.rate:,.0f} images/s, "
            f"{self.nbytes / 1e6:g} MB at {self.bandwidth / 1e9:g} GB/s, {self.latency * 1e6:g} µs"
        )

    @property
    def hardware(self):
        """All arguments except the batch size."""
        return self.k, self.rate, self.nbytes, self.bandwidth, self.latency

    @property
    def arguments(self):
        """All arguments of ``predict_step``."""
        return (self.k, self.batch_size, *self.hardware[1:])

    @property
    def terms(self):
        """Seconds of computing, sending, and latencies."""
        steps = 2 * (self.k - 1)
        compute = self.batch_size / self.k / self.rate
        return compute, steps / self.k * self.nbytes / self.bandwidth, steps * self.latency

    def check_step(self, got):
        """Raise AssertionError, naming the wrong term, unless `got` is the sum of the three."""
        compute, sending, latencies = self.terms
        wanted = compute + sending + latencies
        if math.isclose(got, wanted, rel_tol=1e-6):
            return
        k, whole = self.k, self.batch_size / self.rate
        mistakes = {
            "that is in milliseconds; return seconds": _close(got, 1e3 * wanted),
            "one GPU sends nothing; only computing is left": k == 1 and got > wanted,
            "it forgets the allreduce: add the time for the bytes and that for the latencies": (
                _close(got, compute)
            ),
            "it forgets the latencies: one for each of 2(k - 1) steps": (
                _close(got, compute + sending)
            ),
            "it forgets the bytes: 2(k - 1)/k times nbytes, divided by the bandwidth": (
                _close(got, compute + latencies)
            ),
            "each GPU computes a k-th of the minibatch only: divide by k": _close(
                got - wanted, whole - compute
            ),
            "that is the time of a reduce-scatter or an all-gather alone; the ring makes both, "
            "2(k - 1) steps": _close(got, compute + (sending + latencies) / 2),
            "that is half of the bytes: reduce-scatter and all-gather send (k - 1)/k each": _close(
                got, wanted - sending / 2
            ),
            "that is one latency; there is one for each of 2(k - 1) steps": _close(
                got, compute + sending + self.latency
            ),
            "the k messages of a step travel at the same time: 2(k - 1) latencies": _close(
                got - wanted, (k - 1) * latencies
            ),
            "in each step a device sends a chunk, a k-th of the bytes, not all of them": _close(
                got - wanted, (k - 1) * sending
            ),
        }
        hint = next((said for said, made in mistakes.items() if made), "add the three terms up")
        raise AssertionError(f"{self}: {got:.6g} s, but {wanted:.6g} s is right; {hint}")

    def check_break_even(self, got):
        """Raise AssertionError if `got` images are too few to break even, or too many."""
        _, sending, latencies = self.terms
        exact = self.rate * (sending + latencies) * self.k / (self.k - 1)
        if exact * (1 - 1e-6) <= got <= math.floor(exact) + 1 + 1e-6:
            return
        hint = (
            f"on {math.ceil(got) if math.isfinite(got) else got} images the GPUs lose more by the "
            "allreduce than they gain in computing"
            if got < exact
            else f"{math.ceil(exact)} images would be enough"
        )
        if _close(got, self.rate * (sending + latencies)):
            hint += "; k GPUs save the part 1 - 1/k of the time to compute, not all of it"
        raise AssertionError(f"{self}: break_even says {got:.6g}; {hint}")


def _close(x, y):
    return math.isclose(x, y, rel_tol=1e-6)


CASES = (
    Case(2, 256, 25_000, 44.7e6, 24e9, 40e-6),
    Case(4, 512, 1_000_000, 0.5e6, 240e9, 5e-6),
    Case(8, 4096, 25_000, 1e9, 12e9, 50e-6),
    Case(1, 256, 50_000, 44.7e6, 24e9, 5e-6),
)


@checker("predict_step(k, batch_size, rate, nbytes, bandwidth, latency)")
def check_predict_step(predict_step):
    """Check a function that estimates the time of a data-parallel step.

    Parameters
    ----------
    predict_step : callable
        ``predict_step(k, batch_size, rate, nbytes, bandwidth, latency)`` returning the seconds for
        computing the share of one of k GPUs, at `rate` images per second, and for a ring allreduce
        of `nbytes` bytes over links of `bandwidth` bytes per second.

    Raises
    ------
    AssertionError
        If a prediction is wrong; the message names the term.

    Examples
    --------
    >>> compute_only = lambda k, n, rate, nbytes, bandwidth, latency: n / k / rate
    >>> check_predict_step(compute_only)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: it forgets the allreduce
    """
    for case in CASES:
        got = predict_step.at(case)(*case.arguments)
        case.check_step(number(got, f"{case}: the time that predict_step returns"))
    print("predict_step: passed")


@checker("break_even(k, rate, nbytes, bandwidth, latency)")
def check_break_even(break_even):
    """Check a function that returns the minibatch size from which k GPUs are faster than one.

    Parameters
    ----------
    break_even : callable
        ``break_even(k, rate, nbytes, bandwidth, latency)`` returning a number of images; it may
        be rounded up to a whole number.

    Raises
    ------
    AssertionError
        If by the formula of `check_predict_step` k GPUs are slower there, or faster earlier.

    Examples
    --------
    >>> never = lambda k, rate, nbytes, bandwidth, latency: float("inf")
    >>> check_break_even(never)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: 10 images would be enough
    """
    for case in CASES:
        if case.k == 1:
            continue
        got = break_even.at(case)(*case.hardware)
        case.check_break_even(number(got, f"{case}: the number that break_even returns"))
    print("break_even: passed")
