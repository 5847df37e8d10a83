"""What a family makes of a row: a prediction beside what was measured, or why there is none."""

from dataclasses import dataclass

from simgpu.bands.kinds import Kind


class UnpredictableError(ValueError):
    """A row that no prediction is made for; the message says why."""


@dataclass(frozen=True)
class Prediction:
    """One row of a table.

    Attributes
    ----------
    system : str
        As the table calls it.
    preset : str
        What it was simulated as.
    what : str
        The rest of the row, short.
    measured, predicted : float, optional
        Seconds; None if the table has memory only.
    fitted : bool
        Whether the row is among those that a parameter was fitted to.
    memory : tuple of float, optional
        Bytes of memory at the peak: measured, predicted.
    job : str
        Rows with the same one are splits, or programs, for the same work.
    assumed : str
        What the row leaves open.
    unfitted : float, optional
        Seconds predicted with nothing fitted, in a family that fits a constant.
    fits : tuple of bool, optional
        Whether it fits in memory: really, and as predicted. None if the table does not say.
    context : int
        Among how many ranks a sequence's positions are split.
    kind : Kind, optional
        Of the run, with nothing fitted; None of a single message.
    """

    system: str
    preset: str
    what: str
    measured: float | None
    predicted: float | None
    fitted: bool = False
    memory: tuple | None = None
    job: str = ""
    assumed: str = ""
    unfitted: float | None = None
    fits: tuple | None = None
    context: int = 1
    kind: Kind | None = None

    @property
    def ratio(self):
        """Predicted over measured: of the seconds, or of the memory if there are none."""
        if self.measured is None:
            return self.memory[1] / self.memory[0]
        return self.predicted / self.measured


def whole(row, column):
    """Return the whole number in a column; raise `UnpredictableError` if there is none."""
    try:
        return int(row[column])
    except ValueError:
        raise UnpredictableError(f"{column} is {row[column]!r}, not a whole number") from None


def positive(row, column):
    """Return the positive number in a column; raise `UnpredictableError` if there is none."""
    try:
        value = float(row[column])
    except ValueError:
        value = 0.0
    if not value > 0:
        raise UnpredictableError(f"{column} is {row[column]!r}, not a positive number")
    return value
