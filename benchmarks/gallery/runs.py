"""The published runs: which program, on which GPUs, and what its authors measured."""

import csv
from dataclasses import dataclass, fields
from pathlib import Path

PATH = Path(__file__).with_name("runs.csv")


@dataclass(frozen=True)
class Run:
    """A run that was published.

    Attributes
    ----------
    program, options : str
        A module of `benchmarks.compiled.programs`, and its arguments.
    launch : str
        Options of ``simgpu run``.
    what : str
        For the first run of a program the model and the sizes, for others what was changed.
    billions : float
        Of parameters.
    seq, tokens : int
        Tokens of a sequence, and of a step on all GPUs.
    unit : str
        Of the next: ``ms`` of a step, or ``tokens/s`` of all GPUs.
    published : float
    gib : float or None
        Peak of memory, as published.
    memory : str
        What it is: ``allocated``, ``reserved``, or empty.
    key, source : str
        Of references.bib, and where in that source.
    use : str
        ``development``: known while simgpu was built.
    """

    program: str
    options: str
    launch: str
    what: str
    billions: float
    seq: int
    tokens: int
    unit: str
    published: float
    gib: float | None
    memory: str
    key: str
    source: str
    use: str

    @property
    def name(self) -> str:
        """The command's words that tell this run from others."""
        return f"{self.launch} -m {self.program} {self.options}".strip()

    @property
    def gpu(self) -> str:
        """Name of the preset."""
        return self._launch("--gpu")

    @property
    def gpus(self) -> int:
        """How many GPUs."""
        return int(self._launch("--nproc-per-node", "1"))

    def _launch(self, option, default=None):
        words = self.launch.split()
        return words[words.index(option) + 1] if option in words else default

    @property
    def seconds(self) -> float:
        """Published seconds of a step."""
        return self.published / 1e3 if self.unit == "ms" else self.tokens / self.published


def read(path=PATH) -> list[Run]:
    """Return the published runs."""
    convert = {
        float: float,
        int: int,
        str: str,
        float | None: lambda text: float(text) if text else None,
    }
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Run(**{field.name: convert[field.type](row[field.name]) for field in fields(Run)})
            for row in csv.DictReader(file)
        ]
