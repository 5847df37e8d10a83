"""What a comparison finds."""

from dataclasses import dataclass, field

EQUAL, DIFFERS, UNKNOWN = range(3)  # also the exit codes
ORDER = (  # of findings of one step: causes before what follows from them
    "collectives", "examples", "learning rate", "types", "parameters", "loss", "gradients",
)  # fmt: skip

CAUSES = ORDER[:-2]


@dataclass(frozen=True)
class Finding:
    """A quantity that differs.

    Attributes
    ----------
    quantity : str
        One of `ORDER`.
    step : int
        The first step, counted from 1.
    text : str
        What differs, with both values.
    cause : str
        Why it may.
    line : str
        The line of the script.
    one, many : float, str or None
        The values.
    """

    quantity: str
    step: int
    text: str
    cause: str = ""
    line: str = ""
    one: object = None
    many: object = None


@dataclass
class Result:
    """All findings.

    Attributes
    ----------
    found : list of Finding
    notes : list of str
        What a reader should know besides.
    not_compared : str
        Why losses and gradients could not be compared; "" if they were.
    """

    found: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    not_compared: str = ""

    @property
    def code(self) -> int:
        """The exit code."""
        if self.found:
            return DIFFERS
        return UNKNOWN if self.not_compared else EQUAL

    def add(self, finding) -> None:
        """Add a finding, unless it is None; keep them in order."""
        if finding is not None:
            self.found.append(finding)
            self.found.sort(key=lambda one: (one.step, ORDER.index(one.quantity)))
