"""The launcher's summary of a run: how fast it was, and what limited it.

All numbers are simulated, from the trace of the run. They cover its steps without the first, which
includes the setup: from the end of the first ``optimizer.step()`` to the end of the last
(``steps.py``). With fewer than two steps they cover the whole run.

- **Step time**: the median time from the end of one step to the end of the next; the mean if the
  data loader counts, since then every k-th step waits for k workers.
- **Exposed communication**: the share of the time in which a rank's communication runs and its
  compute engine is idle; the mean over the ranks. **Hidden communication**: the share in which both
  run.
- **Throughput**: what ``--per-step`` says that a step processes, over the step time.
- **Peak memory**: of the tensors on a rank's device, over the whole run; *reserved*: of the
  segments that PyTorch's caching allocator would hold for them.
- **MFU**: FLOPs of all matrix products, convolutions and attentions (recomputation for
  checkpointing included), over what the GPUs' data sheet allows in that time, for the data type of
  most FLOPs.
- **Limited by**: the cause of the largest share of the ranks' time. Every moment of a rank has one
  cause, see `CAUSES_WITH_INPUT` in ``causes/shares.py``; the shares are means over the ranks and
  add up to 1.
- **Waiting for others**: names the ranks that are late, if some wait less than the others, what
  takes a larger share of their time, and how long. What a data loader takes is measured and
  scatters: it makes a rank late only if it is clearly slower (``causes/waited.py``).
- **Kernels**: how many a step has on a rank, by where they come from: the backward pass, the
  optimizer's ``step()``, and *forward* all else.
- **Host**: what the rank's host takes for the launches of eager code (``hardware/host.py``) in a
  step. If that is assumed, and could limit the steps of a slower host, it says how long those would
  take at least: as long as the launches.
- **Input** (with ``--loader``): the share of the time in which nothing runs because the host makes
  a batch of data or waits for one; ``loader/`` says what is modelled.
- **How sure**: how many times the predicted time published steps of the same kind took. The kind is
  that of `simgpu.bands.kinds`; a program with all-to-alls is taken for a mixture of experts, and
  one that sends along an axis of a mesh called ``cp`` splits sequences (``causes/splits.py``).

``--summary json`` prints the same numbers in one line, the last one, with the keys of
`Summary.to_dict`.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import fmean, median

from simgpu.bands.find import find_band, in_words
from simgpu.bands.kinds import Kind, kind_of
from simgpu.clock import current
from simgpu.clock.trace import OF_RANKS
from simgpu.hardware import host
from simgpu.hardware.specs import GPU
from simgpu.network import nccl_memory
from simgpu.run.causes.shares import (
    CAUSES_WITH_INPUT,
    INPUT,
    WAITING,
    by_rank,
    communicating,
    shares,
)
from simgpu.run.causes.splits import sends_to_experts, splits_sequences
from simgpu.run.causes.waited import RUN, STEP, Waited, waited_for
from simgpu.run.faults import NONE
from simgpu.run.loader.report import Input
from simgpu.run.steps import PARTS
from simgpu.units import percent, quantity, scale, size


@dataclass(frozen=True)
class Summary:
    """The performance of a run in a few numbers.

    Attributes
    ----------
    hardware : str
        The simulated hardware.
    start, end : float
        The window that the shares refer to, in seconds.
    num_steps : int
        Number of steps of which the step time is the median; 0: the window is the whole run.
    step_seconds : float
        Step time, or the duration of the whole run.
    peak_memory : dict
        Bytes, by rank.
    peak_reserved : dict
        Bytes, by rank.
    uncounted : dict
        The least and the most bytes that CUDA's context and NCCL's buffers take, by rank.
    gpu_memory : int
        Bytes that a GPU has.
    mfu : float
        Model FLOPs utilisation, from 0 to 1.
    peak_type : str
        The data type whose peak `mfu` refers to.
    peak_flops : float
        That peak of one GPU, FLOP/s.
    hidden_communication : float
        The share of the time in which ranks both communicate and compute.
    shares : dict
        Share of the time by cause, from 0 to 1.
    gpu : GPU
        A GPU, with what its host takes to launch a kernel.
    kind : Kind
        Which published steps say how wrong `step_seconds` may be.
    work : tuple, optional
        What a step processes: a number and its unit.
    kernels : dict, optional
        How many a step has, by rank and part of the step.
    launches : dict, optional
        How many of them are eager code, by rank and by what launches them.
    input : Input, optional
        What the script's data loader took.
    other_seconds : float
        What the host does besides for each step, as stated.
    waited_for : Waited, optional
        For whom most ranks wait.
    """

    hardware: str
    start: float
    end: float
    num_steps: int
    step_seconds: float
    peak_memory: dict
    peak_reserved: dict
    uncounted: dict
    gpu_memory: int
    mfu: float
    peak_type: str
    peak_flops: float
    hidden_communication: float
    shares: dict
    gpu: GPU
    kind: Kind
    work: tuple | None = None
    kernels: dict = field(default_factory=dict)
    launches: dict = field(default_factory=dict)
    input: Input | None = None
    other_seconds: float = 0.0
    waited_for: Waited | None = None

    @property
    def exposed_communication(self):
        """The share of the time in which ranks communicate and compute nothing."""
        return self.shares["communication"]

    @property
    def limit(self):
        """The cause with the largest share."""
        return max(self.shares, key=self.shares.get)

    @property
    def throughput(self):
        """How many units of work are done in a second; None if no work was said."""
        return self.work and self.work[0] / self.step_seconds

    @property
    def sure(self):
        """How long a step may really take, in words."""
        if not self.num_steps:
            return "not known: no steps were found, and what was published are steps"
        return in_words(self.step_seconds, self.kind)

    def doubts(self) -> list[str]:
        """Return why numbers may be far from those of real GPUs, a line each."""
        doubts = []
        if self.input:
            doubts += self.input.doubts(self.end - self.start, self.num_steps)
        if self.limit == "launches" and not self.launches and host.is_assumed(self.gpu):
            doubts.append(
                "launches limit this run, and their time is assumed: "
                f"{host.in_words(self._each)}; --host states another"
            )
        fullest = max(self.peak_reserved, key=self.peak_reserved.get)
        reserved = self.peak_reserved[fullest]
        uncounted = nccl_memory.in_words(self.uncounted[fullest])
        if nccl_memory.may_be_too_much(reserved, self.uncounted[fullest], self.gpu_memory):
            doubts.append(
                f"{_of(reserved, self.gpu_memory)} are reserved on rank {fullest}: a real GPU may "
                f"be out of memory, since it also holds {uncounted}, and the workspaces of "
                "libraries"
            )
        return doubts

    def __str__(self):
        mean = "mean" if self._loads else "median"
        steps = f"{mean} of {self.num_steps}" if self.num_steps else "the whole run: no steps found"
        most = max(self.peak_memory, key=self.peak_memory.get)
        least = min(self.peak_memory, key=self.peak_memory.get)
        where = "on every rank"
        if size(self.peak_memory[least]) != size(self.peak_memory[most]):
            where = f"on rank {most}; the least: {size(self.peak_memory[least])} on rank {least}"
        where += f"; {size(self.peak_reserved[most])} reserved"
        hidden = f"of the time; {percent(self.hidden_communication)} more is hidden behind kernels"
        peak = f"of {quantity(self.peak_flops, 'FLOP/s')}, the peak for {self.peak_type}"
        rows = [
            ("step time", _seconds(self.step_seconds), steps),
            *([("throughput", *self._throughput())] if self.work else []),
            ("exposed communication", percent(self.exposed_communication), hidden),
            ("peak memory", _of(self.peak_memory[most], self.gpu_memory), where),
            *([("MFU", percent(self.mfu), peak)] if self.mfu else []),
            ("limited by", self.limit, CAUSES_WITH_INPUT[self.limit]),
        ]
        causes = sorted(self.shares, key=self.shares.get, reverse=True)
        whom = {WAITING: self.waited_for or ""}
        rows += [(f"  {c}", percent(self.shares[c]), whom.get(c, "")) for c in causes]
        rows += [("kernels", *self._kernels())] if self.kernels else []
        rows += [("host", *self._host())] if self.launches else []
        rows += [("input", percent(self.shares.get(INPUT, 0.0)), self.input)] if self._loads else []
        title = f"simulated, not measured: {self.hardware}"
        lines = [f"{a:<22} {b:<19} {c}".rstrip() for a, b, c in rows]
        return "\n".join([title, *lines, f"how sure: {self.sure}"])

    def _kernels(self):
        """Return how many kernels a step has, and of which part, on the rank with the most."""
        totals = {rank: sum(parts.values()) for rank, parts in self.kernels.items()}
        most, least = (choose(totals, key=totals.get) for choose in (max, min))
        parts = (f"{self.kernels[most][part]:,.0f}" for part in PARTS)
        text = "{} forward, {} backward, {} in the optimizer".format(*parts)
        if f"{totals[least]:,.0f}" != f"{totals[most]:,.0f}":
            text += f", on rank {most}; the least: {totals[least]:,.0f} on rank {least}"
        return f"{totals[most]:,.0f} a step", text

    def _host(self):
        """Return what the host takes for the launches of a step, and how long that may be."""
        launches = max(self.launches.values(), key=lambda own: host.step_seconds(own, self._each))
        seconds = host.step_seconds(launches, self._each)
        text = f"to launch {sum(launches.values()):,.0f} kernels of eager code, "
        text += host.in_words(self._each)
        if host.is_assumed(self.gpu):
            text += " (assumed"
            slow = host.step_seconds(launches, host.SLOW)
            if slow > self.step_seconds:
                text += (
                    f"; with {host.in_words(host.SLOW)}, as published, a step takes "
                    f"{_seconds(slow)} at least: --host"
                )
            text += ")"
        if self.other_seconds:
            seconds += self.other_seconds
            text += f", and for {_seconds(self.other_seconds)} of other work"
        return f"{_seconds(seconds)} a step", text

    @property
    def _each(self):
        return host.seconds_of(self.gpu)

    @property
    def _loads(self):
        """Whether the script's data loader counts."""
        return self.input is not None and self.input.choice.counts

    def _throughput(self):
        amount, unit = self.work
        return quantity(self.throughput, f"{unit}/s"), f"{amount:,g} {unit} a step, as given"

    def to_dict(self) -> dict:
        """Return all numbers, for JSON; the end of a key is its unit.

        Returns
        -------
        dict
            ``hardware``: the simulated hardware, in words. ``steps``: of how many steps
            ``step_time_seconds`` is the median, or the mean if the data loader counts; 0: it is
            the time of the whole run.
            ``exposed_communication_share``, ``hidden_communication_share``: of the time, 0 to 1.
            ``peak_memory_bytes``, ``peak_reserved_bytes``: by rank. ``uncounted_memory_bytes``: by
            rank, the least and the most that CUDA's context and NCCL's buffers take besides.
            ``throughput_per_second``: None if no work was said; its unit is ``work_unit``.
            ``gpu_memory_bytes``: what a GPU has.
            ``mfu_share``: 0 to 1, of ``peak_flop_per_second``, which is that for ``peak_dtype``.
            ``limited_by``: a key of ``time_shares``, which are by cause and add up to 1.
            ``waited_for``: for whom most ranks wait, and why (`simgpu.run.causes.waited.Waited`);
            None if nobody stands out.
            ``kernels_per_step``: by rank and part of the step, ``forward`` (also what is neither of
            the others), ``backward``, ``optimizer``; {} without steps.
            ``launch_seconds``: what the host takes for a kernel of eager code, forward and
            backward; ``launches_per_step``: how many there are, by rank, in these two ways.
            ``window_seconds``: the start and the end of the time that the shares are of.
            ``kind``: of which kind the run is (`simgpu.bands.kinds.Kind`). ``error_of_time``: how
            many times the predicted time published steps of that kind took
            (`simgpu.bands.find.Band`); None if there are none, or no steps were found.
            ``loader``: where the times of the script's data loader are from, in words; None if it
            does not count, and then ``batch_seconds``, from one batch to the next if the loader
            never pauses, and ``loader_workers`` are None, too.
        """
        band = find_band(self.kind) if self.num_steps else None
        return {
            "hardware": self.hardware,
            "steps": self.num_steps,
            "step_time_seconds": self.step_seconds,
            "exposed_communication_share": self.exposed_communication,
            "hidden_communication_share": self.hidden_communication,
            "throughput_per_second": self.throughput,
            "work_unit": self.work and self.work[1],
            "peak_memory_bytes": self.peak_memory,
            "peak_reserved_bytes": self.peak_reserved,
            "uncounted_memory_bytes": self.uncounted,
            "gpu_memory_bytes": self.gpu_memory,
            "mfu_share": self.mfu,
            "peak_flop_per_second": self.peak_flops,
            "peak_dtype": self.peak_type,
            "limited_by": self.limit,
            "time_shares": self.shares,
            "waited_for": self.waited_for and asdict(self.waited_for),
            "kernels_per_step": self.kernels,
            "launch_seconds": self._each,
            "launches_per_step": {rank: [*own.values()] for rank, own in self.launches.items()},
            "window_seconds": [self.start, self.end],
            "kind": asdict(self.kind),
            "error_of_time": band and band.to_dict(),
            "loader": self.input.choice.source if self._loads else None,
            "batch_seconds": self.input.interval if self._loads else None,
            "loader_workers": self.input.workers if self._loads else None,
        }


def summarize(
    spans, steps, cluster, faults=NONE, work=None, compiled=False, loaders=None
) -> Summary:
    """Return the summary of the last run of `spawn`.

    Parameters
    ----------
    spans : list of Span
        The trace of the run.
    steps : Steps
        Its steps.
    cluster : Cluster
        The hardware it ran on.
    faults : Faults, optional
        Which GPUs were slower.
    work : tuple, optional
        What a step processes: a number and its unit.
    compiled : bool
        Whether `torch.compile` made a part of the program.
    loaders : Loaders, optional
        The data loaders of its ranks.
    """
    ranks, gpu = by_rank(spans), cluster.gpu
    start, end = 0.0, max(span.end for span in spans)
    durations = steps.durations() if sum(steps.durations()) > 0 else []
    if durations:
        start, end = steps.ends()[0], steps.ends()[-1]
    each = [shares(own, faults.gpu(rank, gpu), start, end) for rank, own in ranks.items()]
    found = dict.fromkeys(cause for one in each for cause in one)
    causes = {cause: fmean(one.get(cause, 0.0) for one in each) for cause in found}
    loaded = loaders and loaders.input(len(durations))
    average = fmean if loaded and loaded.choice.counts else median  # every k-th of k workers waits
    communication = fmean(communicating(own, start, end) for own in ranks.values())
    flops = sum(_flops(span, start, end) for span in spans if span.engine == "compute")
    by_type = steps.flops() if durations else _flops_by_type(len(ranks))
    peak_type = max(by_type, key=by_type.get, default="float32")
    at_peak = sum(done / gpu.flops[name] for name, done in by_type.items())  # seconds
    # Of all types together, each at its own peak: that of the main type is only the largest part.
    peak = by_type.total() / at_peak if at_peak else gpu.flops[peak_type]
    devices = _devices()
    return Summary(
        hardware=f"{_describe(cluster, list(ranks))}{faults}",
        start=start,
        end=end,
        num_steps=len(durations),
        step_seconds=average(durations or [end - start]),
        peak_memory={r: devices[r].memory.highest[0] for r in ranks},
        peak_reserved={r: devices[r].memory.highest[1] for r in ranks},
        uncounted={r: devices[r].connections.num_bytes() for r in ranks},
        gpu_memory=gpu.memory,
        mfu=flops / (len(ranks) * peak * (end - start)),
        peak_type=peak_type,
        peak_flops=gpu.flops[peak_type],
        hidden_communication=max(0.0, communication - causes["communication"]),
        shares=causes,
        gpu=gpu,
        kind=kind_of(
            cluster, peak_type, causes, compiled, sends_to_experts(spans), splits_sequences(spans)
        ),
        work=work,
        kernels=steps.kernels() if durations else {},
        launches=steps.launches() if durations else {},
        input=loaded,
        other_seconds=steps.host_seconds,
        waited_for=waited_for(
            dict(zip(ranks, each, strict=True)),
            _work(ranks, start, end),
            (end - start) / (len(durations) or 1),
            STEP if durations else RUN,
            loaders and loaders.measured(len(durations)),
        ),
    )


def _work(ranks, start, end):
    """Return what the kernels of each rank compute and move inside the window."""
    return {
        rank: sum(
            span.flops + span.bytes for span in own
            if span.engine == "compute" and start <= span.start < end
        )
        for rank, own in ranks.items()
    }  # fmt: skip


def _devices():
    """Return the device of each rank that ran, also of those that used none."""
    return {device.row - OF_RANKS: device for device in current.current_machine().devices}


def _describe(cluster, ranks):
    """Describe the hardware of a run, and the ranks that ran if they are not all."""
    text = f"{cluster.gpus_per_node} x {cluster.gpu.name} on {cluster.link.name}"
    if cluster.nodes > 1:
        text = f"{cluster.nodes} nodes of {text}, joined by {cluster.network.name}"
    if len(ranks) < cluster.world_size:
        names = ", ".join(map(str, ranks))
        text += f"; rank{'s' * (len(ranks) > 1)} {names} in place of all {cluster.world_size}"
    return text


def _flops(span, start, end):
    """Return the FLOPs of a kernel inside the window, assuming a constant rate."""
    inside = min(span.end, end) - max(span.start, start)
    return span.flops * inside / span.duration if inside > 0 else 0.0


def _flops_by_type(num_devices):
    """Return the FLOPs of the whole run, by data type."""
    return sum((current.find_device(i).flops for i in range(num_devices)), Counter())


def _seconds(seconds):
    """Write a time with three digits, zeros included: runs are compared by them."""
    power, unit = scale(seconds, "s")
    return f"{seconds / 10**power:#.3g}".rstrip(".") + f" {unit}"


def _of(part, whole):
    """Write bytes beside what there is: 33.4 of 80 GiB."""
    part, whole = size(part), size(whole)
    unit = whole.rpartition(" ")[2]
    return f"{part.removesuffix(f' {unit}')} of {whole}"
