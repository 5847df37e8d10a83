"""What was observed of a run, rank by rank and step by step."""

from collections import Counter
from dataclasses import dataclass, field

import torch

INPUTS = "inputs of the model"  # in place of a data set, where no loader delivers batches


@dataclass
class Piece:
    """What a rank holds of a parameter, or of its gradient.

    Attributes
    ----------
    numel : int
        Elements of the whole parameter.
    place : str
        Which part it is of a sharded one, "" for all of it; pieces of the same place should be
        equal on all ranks.
    squares : float
        The sum of its squared elements.
    digest : bytes
        Of its elements.
    dtype : str
    term : str
        Which summand it is, if ranks have still to add it up; "" otherwise.
    values : torch.Tensor, optional
        Its elements, if it is a summand.
    """

    numel: int
    place: str
    squares: float
    digest: bytes
    dtype: str
    term: str = ""
    values: torch.Tensor | None = None


@dataclass
class Step:
    """What a rank has done in a training step; it ends with ``optimizer.step()``.

    Attributes
    ----------
    losses : list of float
        What ``backward()`` was called on.
    rates : dict
        Learning rate by optimizer and parameter group.
    gradients, parameters : dict
        Name -> `Piece`: gradients before they are clipped, parameters after the step.
    types : dict
        Name of a parameter or a state -> its data type.
    lost : tuple of int
        Elements of half-precision parameters with a gradient: those that the step left as they
        were, and all of them.
    schedules : int
        Calls of schedulers' ``step()``.
    examples : dict
        Dataset -> the examples of the batches that were taken.
    calls : Counter
        Calls of collectives, by the members of the group and the line.
    lines : dict
        Kind of call -> the line of the script that made it.
    """

    losses: list = field(default_factory=list)
    rates: dict = field(default_factory=dict)
    gradients: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    types: dict = field(default_factory=dict)
    lost: tuple = (0, 0)
    schedules: int = 0
    examples: dict = field(default_factory=dict)
    calls: Counter = field(default_factory=Counter)
    lines: dict = field(default_factory=dict)


@dataclass
class Pass:
    """One iteration over a data set.

    Attributes
    ----------
    data : str
        The data set.
    size : int or None
        Its number of examples, if it says so.
    line : str
        Where the iteration begins.
    examples : list
        Their numbers, or of an iterable data set their digests.
    ended : bool
        Whether the iteration has come to its end.
    by_number : bool
        Whether examples are numbers.
    """

    data: str
    size: int | None
    line: str
    by_number: bool = True
    examples: list = field(default_factory=list)
    ended: bool = False


@dataclass
class RankRecord:
    """What a rank has done; ``steps[-1]`` has not ended.

    Attributes
    ----------
    steps : list of Step
    passes : list of Pass
    start : dict
        Name -> `Piece` of the parameters before the first step.
    random : dict
        What draws random numbers in training -> the line that calls it.
    """

    steps: list = field(default_factory=lambda: [Step()])
    passes: list = field(default_factory=list)
    start: dict = field(default_factory=dict)
    random: dict = field(default_factory=dict)

    @property
    def now(self) -> Step:
        """The step that has not ended."""
        return self.steps[-1]

    @property
    def done(self) -> list[Step]:
        """The steps that have ended."""
        return self.steps[:-1]


@dataclass
class RunRecord:
    """What all ranks have done.

    Attributes
    ----------
    ranks : dict
        Number -> `RankRecord`.
    flops : Counter
        Of all ranks, by data type.
    code : int
        Exit code of the script.
    error : BaseException or None
        Why it has failed.
    text : str
        What it printed on stderr.
    files : dict
        Path of a file that an earlier run has written -> the line that reads it.
    unwritten : list of str
        Which lines read memory that nothing has written.
    """

    ranks: dict = field(default_factory=dict)
    flops: Counter = field(default_factory=Counter)
    code: int = 0
    error: BaseException | None = None
    text: str = ""
    files: dict = field(default_factory=dict)
    unwritten: list = field(default_factory=list)

    @property
    def num_steps(self) -> int:
        """How many steps all ranks have made."""
        return min((len(rank.done) for rank in self.ranks.values()), default=0)

    @property
    def can_reverse(self) -> bool:
        """Whether a loader takes examples by their numbers, in an order that can be reversed."""
        return any(found.by_number for rank in self.ranks.values() for found in rank.passes)

    def at(self, index) -> dict[int, Step]:
        """Return a step of each rank."""
        return {number: rank.steps[index] for number, rank in sorted(self.ranks.items())}

    def losses(self) -> tuple[int, str]:
        """Return how many losses ranks have without a step, and the line of the first."""
        left = [rank.now for rank in self.ranks.values()]
        lines = filter(None, (step.lines.get("backward") for step in left))
        return sum(len(step.losses) for step in left), next(lines, "")

    def line(self, kind, index=0) -> str:
        """Return the line that made a kind of call in a step, on the first rank that made it."""
        lines = (step.lines.get(kind) for step in self.at(index).values())
        return next(filter(None, lines), "")
