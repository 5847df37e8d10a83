"""Seconds that know their clock, so that nobody compares a simulated time with a measured one."""

SIMULATED, MEASURED = "simulated", "measured"


class Seconds(float):
    """A time in seconds, with the clock that it was read from.

    A float, except that times of different clocks do not mix: to add, subtract, divide or order
    them is an error. Sums, differences and multiples keep the clock; what else comes of them is a
    plain float.

    Parameters
    ----------
    value : float
        Seconds.
    clock : {"measured", "simulated"}
        What was read: the wall clock, or the virtual clock of simulated GPUs.

    Raises
    ------
    ValueError
        If times of the two clocks meet. ``float(seconds)`` forgets the clock, for those who know
        what they compare.

    Examples
    --------
    >>> one, two = Seconds(0.3, "simulated"), Seconds(0.2, "simulated")
    >>> round(one / two, 3), (one + two).clock
    (1.5, 'simulated')
    >>> one < Seconds(0.1, "measured")
    Traceback (most recent call last):
        ...
    ValueError: 0.3 s is simulated, 0.1 s is measured: two clocks that cannot be compared; run \
both on simulated GPUs, or both on real ones
    """

    __slots__ = ("clock",)

    def __new__(cls, value, clock=MEASURED):
        """Make a float with a clock."""
        seconds = super().__new__(cls, value)
        seconds.clock = clock
        return seconds

    def _checked(self, other):
        if isinstance(other, Seconds) and other.clock != self.clock:
            raise ValueError(
                f"{float(self):.6g} s is {self.clock}, {float(other):.6g} s is {other.clock}: two "
                "clocks that cannot be compared; run both on simulated GPUs, or both on real ones"
            )
        return other

    def _keep(self, value):
        return value if value is NotImplemented else Seconds(value, self.clock)

    def __add__(self, other):
        return self._keep(super().__add__(self._checked(other)))

    __radd__ = __add__

    def __sub__(self, other):
        return self._keep(super().__sub__(self._checked(other)))

    def __rsub__(self, other):
        return self._keep(super().__rsub__(self._checked(other)))

    def __mul__(self, other):
        return self._keep(super().__mul__(other))

    __rmul__ = __mul__

    def __truediv__(self, other):
        value = super().__truediv__(self._checked(other))
        return value if isinstance(other, Seconds) else self._keep(value)

    def __lt__(self, other):
        return super().__lt__(self._checked(other))

    def __le__(self, other):
        return super().__le__(self._checked(other))

    def __gt__(self, other):
        return super().__gt__(self._checked(other))

    def __ge__(self, other):
        return super().__ge__(self._checked(other))
