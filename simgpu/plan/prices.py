"""Prices of GPUs in a file of one's own, and what a plan costs by them.

No prices come with the simulator: they change by the week, and by who asks. A file is yours to
write and to keep up to date (``simgpu plan --prices FILE``). It has these keys, all required:

``format``
    ``"simgpu prices 1"``.
``date``
    When they were valid, as ``"2026-01-31"``.
``source``
    Where they stand, as a text.
``dollars_per_gpu_hour``
    Dollars for a GPU and an hour, by the GPU's name (`simgpu.GPUS`, or that in a GPU's file).

An example with round numbers that are made up, and are nobody's prices::

    {
     "format": "simgpu prices 1",
     "date": "2026-01-31",
     "source": "made up for an example",
     "dollars_per_gpu_hour": {"a100": 1, "h100": 2}
    }
"""

import datetime
import math
from dataclasses import dataclass
from os import PathLike

from simgpu.hardware.gpu_file import load
from simgpu.plan.step.rules import PlanError
from simgpu.rates_and_sizes import count, duration
from simgpu.units import billions, days, dollars

FORMAT = "simgpu prices 1"
KEYS = ("format", "date", "source", "dollars_per_gpu_hour")
BY_HAND = "help('simgpu.plan.prices') shows a file of prices"
HOUR, BILLION = 3600, 1e9


@dataclass(frozen=True)
class Prices:
    """The prices of a file.

    Attributes
    ----------
    date, source : str
        When they were valid, and where they stand.
    of_gpus : dict of str to float
        Dollars for a GPU and an hour.
    """

    date: str
    source: str
    of_gpus: dict

    def find(self, gpu) -> float:
        """Return the price of a GPU for an hour.

        Raises
        ------
        PlanError
            If the file has none.
        """
        if gpu not in self.of_gpus:
            raise PlanError(
                f"--prices: no price of {gpu!r}; the file has {', '.join(self.of_gpus)}: add it to "
                "dollars_per_gpu_hour"
            )
        return self.of_gpus[gpu]


def read(path) -> Prices:
    """Return the prices in a file.

    Raises
    ------
    PlanError
        If there is no such file, or something in it is missing, unknown or invalid.
    """
    try:
        data = load(path, BY_HAND)
    except ValueError as error:
        raise PlanError(f"--prices {error}") from None
    problem = _problem(data)
    if problem:
        raise PlanError(f"--prices {path}: {problem}; {BY_HAND}")
    return Prices(data["date"], data["source"], data["dollars_per_gpu_hour"])


def _problem(data):
    """Return what is wrong with a file's content, or None."""
    if not isinstance(data, dict) or data.keys() != set(KEYS):
        found = ", ".join(data) if isinstance(data, dict) else type(data).__name__
        return f"the keys are {found}; give {', '.join(KEYS)}"
    if data["format"] != FORMAT:
        return f"format is {data['format']!r}; this version reads {FORMAT!r} alone"
    if not _is_date(data["date"]):
        return f"date is {data['date']!r}; write it like 2026-01-31"
    if not isinstance(data["source"], str) or not data["source"].strip():
        return f"source is {data['source']!r}; say where the prices stand"
    of_gpus = data["dollars_per_gpu_hour"]
    if not isinstance(of_gpus, dict) or not of_gpus:
        return f"dollars_per_gpu_hour is {of_gpus!r}; give a price for each GPU's name"
    bad = next((gpu for gpu, price in of_gpus.items() if not _is_price(price)), None)
    return bad and f"the price of {bad} is {of_gpus[bad]!r}; give dollars for an hour, above 0"


def _is_date(text):
    try:
        return isinstance(text, str) and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_price(value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


@dataclass(frozen=True)
class Money:
    """What is asked of a whole run: what it costs, and whether it ends in time.

    Attributes
    ----------
    prices : Prices, optional
        Given as such, or as the path of a file.
    tokens : float, optional
        Of the whole run, given as a number or as ``"15T"``; of a model that takes no tokens, its
        samples.
    within : float, optional
        Seconds after which it must have ended, given as ``"30d"`` or ``"12h"``.

    Raises
    ------
    PlanError
        If the file is not valid, or a text is no number.
    """

    prices: Prices | str | PathLike | None = None
    tokens: float | str | None = None
    within: str | None = None

    def __post_init__(self):
        if self.within is not None and self.tokens is None:
            raise PlanError(f"--within {self.within} needs --tokens: how long is the whole run?")
        for name, parse in (("tokens", count), ("within", duration)):
            self._parse(name, parse)
        if isinstance(self.prices, (str, PathLike)):
            object.__setattr__(self, "prices", read(self.prices))

    def _parse(self, name, parse):
        value = getattr(self, name)
        try:
            object.__setattr__(self, name, None if value is None else parse(value))
        except ValueError as error:
            raise PlanError(f"--{name}: {error}") from None

    def cost_of(self, price, gpus, step_seconds, step_tokens):
        """Return the `Cost` of a plan's steps, or None if nothing was asked.

        Parameters
        ----------
        price : float, optional
            Dollars for a GPU and an hour.
        gpus : int
        step_seconds, step_tokens : float
        """
        if self.prices is None and self.tokens is None:
            return None
        return Cost(
            gpus, price, self.prices, step_seconds, step_tokens, self.tokens, self.within
        )  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What a plan costs, and how long a run of it takes.

    Attributes
    ----------
    gpus : int
    price : float, optional
        Dollars for a GPU and an hour; None: unknown.
    prices : Prices, optional
        Where it stands.
    step_seconds, step_tokens : float
    tokens : float, optional
        Of the whole run.
    deadline : float, optional
        Seconds within which it must end.
    """

    gpus: int
    price: float | None
    prices: Prices | None
    step_seconds: float
    step_tokens: float
    tokens: float | None = None
    deadline: float | None = None

    def dollars_of(self, tokens) -> float | None:
        """Return the dollars that so many tokens cost; None without a price."""
        hours = tokens / self.step_tokens * self.step_seconds / HOUR
        return None if self.price is None else hours * self.gpus * self.price

    @property
    def run_seconds(self):
        """How long the whole run takes; None if its length was not given."""
        return None if self.tokens is None else self.tokens / self.step_tokens * self.step_seconds

    @property
    def in_time(self):
        """Whether the run ends within the deadline; None without one."""
        return None if self.deadline is None else self.run_seconds <= self.deadline

    def to_dict(self) -> dict:
        """Return the numbers, for JSON; the end of a key is its unit, or what it is for."""
        run = None if self.tokens is None else self.dollars_of(self.tokens)
        return {
            "dollars_per_gpu_hour": self.price,
            "prices_date": self.prices and self.prices.date,
            "prices_source": self.prices and self.prices.source,
            "dollars_per_step": self.dollars_of(self.step_tokens),
            "dollars_per_billion": self.dollars_of(BILLION),
            "run_seconds": self.run_seconds,
            "run_dollars": run,
            "ends_in_time": self.in_time,
        }

    def rows(self, unit) -> list:
        """Return lines of a report: a heading, a value, and what is to be said of it."""
        rows = []
        if self.price is not None:
            hourly = f"{dollars(self.price)} a GPU and hour: {self.prices.source}"
            billion, step = (dollars(self.dollars_of(n)) for n in (BILLION, self.step_tokens))
            rows += [(f"a billion {unit}", billion, f"{hourly}, {self.prices.date}")]
            rows += [("a step", step, "")]
        if self.tokens is not None:
            total = "" if self.price is None else f", {dollars(self.dollars_of(self.tokens))}"
            what = f"{billions(self.tokens)} {unit}{total}{self._verdict()}"
            rows += [("whole run", days(self.run_seconds), what)]
        return rows

    def cells(self) -> dict:
        """Return what a table of plans says of it, by heading."""
        found = {}
        if self.price is not None:
            found["$ a billion"] = dollars(self.dollars_of(BILLION))
        if self.tokens is not None:
            late = "" if self.in_time in (None, True) else ", too late"
            found["whole run"] = f"{days(self.run_seconds)}{late}"
        return found

    def _verdict(self):
        if self.deadline is None:
            return ""
        late = self.run_seconds - self.deadline
        return ": ends in time" if late <= 0 else f": TOO LATE by {days(late)}"
