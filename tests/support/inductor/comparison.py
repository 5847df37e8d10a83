"""Kernels of simulated compiled regions beside Inductor's.

``PYTHONPATH=tests python -m support.inductor.comparison`` prints a table of all programs;
with names of programs, of those; with ``-v``, each kernel, too.
"""

import sys
from dataclasses import dataclass

from support.inductor import record
from support.inductor.oracle import BACKWARD, FORWARD
from support.inductor.programs import PROGRAMS

import simgpu as sim
from simgpu.compiled.fusion import SECOND
from simgpu.compiled.regions import Region

EXTERN = "extern"


@dataclass(frozen=True)
class Fused:
    """What counts of a graph's kernels: those that are not products, attention and the like.

    Attributes
    ----------
    kernels : list of tuple
        For each: its kind, the operations in it, bytes that it reads and writes.
    saved : int
        Bytes kept for the backward pass.
    second : int
        How many kernels there are beside these that only add up the parts of a sum. In how many
        parts Inductor splits it follows from the GPU's number of processors, so they are set aside.
    """

    kernels: list
    saved: int
    second: int = 0

    @property
    def count(self) -> int:
        """Number of kernels."""
        return len(self.kernels)

    @property
    def bytes(self) -> int:
        """Bytes that they read and write."""
        return sum(reads + writes for *_, reads, writes in self.kernels)


def inductors(graphs, direction):
    """Return the `Fused` of Inductor's graphs of a direction."""
    found = [graph for graph in graphs if graph.direction == direction]
    fused = [kernel for graph in found for kernel in graph.kernels if kernel.kind != EXTERN]
    kernels = [(k.kind, k.operations, k.reads, k.writes) for k in fused if not k.is_second]
    return Fused(kernels, sum(graph.saved for graph in found), len(fused) - len(kernels))


def simulated(name):
    """Return the plans of a program's compiled region."""
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    program = PROGRAMS[name](device)
    region = Region(program.function)
    program.run(region)
    sim.synchronize()
    return list(region.record.plans.elements())


def ours(plans, direction):
    """Return the `Fused` of our plans of a direction."""
    found = [plan for plan in plans if plan.backward == (direction == BACKWARD)]
    fused = [kernel for plan in found for kernel in plan.kernels if kernel.kind != EXTERN]
    kernels = [
        (k.kind, k.names, sum(k.reads.values()), sum(k.writes.values()))
        for k in fused
        if k.kind != SECOND
    ]
    saved = sum(plan.sizes[v] for plan in found for v in plan.kept)
    return Fused(kernels, saved, len(fused) - len(kernels))


def table(names, verbose=False):
    """Print kernels, MB and MB kept: of Inductor / of our plans; with + its set aside kernels."""
    recorded = record.read()
    print(f"{'program':18}{'direction':10}{'kernels':>12}{'MB':>20}{'ratio':>7}{'MB kept':>18}")
    for name in names:
        plans = simulated(name)
        for direction in dict.fromkeys(graph.direction for graph in recorded[name]):
            theirs, found = inductors(recorded[name], direction), ours(plans, direction)
            print(row(name, direction, theirs, found))
            if verbose:
                show("Inductor", theirs)
                show("simulated", found)


def row(name, direction, theirs, found):
    """Return a line of the table."""
    kernels = f"{theirs.count}+{theirs.second} / {found.count}+{found.second}"
    traffic = f"{theirs.bytes / 1e6:.1f} / {found.bytes / 1e6:.1f}"
    saved = f"{theirs.saved / 1e6:.1f} / {found.saved / 1e6:.1f}" if direction == FORWARD else ""
    ratio = found.bytes / theirs.bytes
    return f"{name:18}{direction:10}{kernels:>12}{traffic:>20}{ratio:7.2f}{saved:>18}"


def show(whose, fused):
    """Print kernels, one a line."""
    print(f"  {whose}")
    for kind, operations, reads, writes in fused.kernels:
        names = " ".join(operations)[:100]
        print(f"    {kind:10}{reads / 1e6:9.2f} read {writes / 1e6:9.2f} written  {names}")


if __name__ == "__main__":
    names = [argument for argument in sys.argv[1:] if argument != "-v"]
    table(names or PROGRAMS, verbose="-v" in sys.argv)
