"""The search: the plan with the lowest bound is simulated first, until no other can be faster."""

import heapq
import multiprocessing
import os
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace

from simgpu.command_line import Progress
from simgpu.plan.errors import is_compared, kind_of_job
from simgpu.plan.plans import Plan
from simgpu.plan.simulate import Simulated, simulate
from simgpu.plan.step.job import Job, PlanError
from simgpu.search.bounds import bounds_of, probe, probe_key

MANY = 64  # GPUs: with this many or more, a search is worth several processes
GAIN = 0.05  # a plan that can be faster than the best by less is not simulated
# The usual ratio of a bound to the time, by formula and by probe: it decides the order alone.
USUAL = {"formula": 0.63, "one stage": 0.97, "pipeline": 0.92}
ROOM = 0.9  # of a GPU's memory; the rest is for the CUDA context, NCCL, and errors of the peak
TOO_LARGE = f"needs more than {ROOM:.0%} of a GPU's memory"
NOT_RUN = "its program does not run"
NOT_KNOWN = "context parallelism, of which no pair was published: others fit (--cp N searches it)"


@dataclass(frozen=True)
class Tried:
    """A plan that was simulated: what it is, its job, and what its step takes."""

    plan: Plan
    job: Job
    step: Simulated

    @property
    def kind(self):
        """Which published steps say how wrong its time may be."""
        return kind_of_job(self.job, self.step.causes)

    @property
    def fits(self):
        """Whether the peak of what tensors take leaves room."""
        return self.step.memory <= ROOM * self.job.cluster.gpu.memory


@dataclass
class Search:
    """What a search has found.

    Attributes
    ----------
    tried : list of Tried
        Plans that were simulated and fit, the fastest first.
    rejected : collections.Counter
        How many plans are impossible, or do not fit, by reason.
    skipped : int
        Plans that were not simulated: they are faster than the best by less than `GAIN`, at most.
    too_large : dict
        Bytes that plans need at least, of those that do not fit.
    simulated : int
        How many steps were simulated, those that did not fit included.
    most : int, optional
        How many will be at most, as far as that is known while the search runs.
    failure : PlanError, optional
        Of the last plan whose program does not run.
    """

    tried: list = field(default_factory=list)
    rejected: Counter = field(default_factory=Counter)
    skipped: int = 0
    too_large: dict = field(default_factory=dict)
    simulated: int = 0
    most: int | None = None
    failure: PlanError | None = None


class _InProcess:
    """An executor that runs what is submitted immediately."""

    def submit(self, call, *arguments):
        """Call, and return the result as a future."""
        future = Future()
        try:
            future.set_result(call(*arguments))
        except PlanError as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_):
        """Do nothing."""


def workers_for(gpus):
    """Return how many processes a search on this many GPUs uses by default."""
    return min(os.cpu_count() or 1, 8) if gpus >= MANY else 1


def search(jobs, rejected=(), workers=1, top=1, everything=False) -> Search:
    """Find the fastest of some plans that fit.

    Plans that no published pair is like (`errors.is_compared`) are looked at only if none of the
    others fits, whatever `top` and `everything` say.

    Parameters
    ----------
    jobs : dict
        `Job` of each plan.
    rejected : collections.Counter
        Reasons of those that are impossible.
    workers : int
        Processes; 1: this one. A model that a Python file makes always stays in this one.
    top : int
        The least number of plans to simulate, if that many fit.
    everything : bool
        Simulate every plan, whatever its bounds: for tests.

    Raises
    ------
    PlanError
        If no plan's program runs.
    """
    result = Search(rejected=Counter(rejected))
    if not all(job.model.has_sizes for job in jobs.values()):
        workers = 1  # its functions cannot be sent to another process
    pool = _InProcess() if workers == 1 else ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn")
    )  # fmt: skip
    try:
        with Progress("plan", lambda: (result.simulated, result.most), "at most"):
            for known in (True, False):
                part = {plan: job for plan, job in jobs.items() if is_compared(plan) == known}
                if result.tried and part:
                    result.rejected[NOT_KNOWN] = len(part)
                else:
                    _Loop(part, result, pool, workers, top, everything).run()
    finally:
        pool.shutdown(cancel_futures=True)
    if result.failure and result.rejected[NOT_RUN] == result.simulated:
        raise result.failure
    result.tried.sort(key=lambda one: (one.step.seconds, str(one.plan)))
    return result


class _Loop:
    """Simulates the plan with the lowest expected time, as long as one can be much faster."""

    def __init__(self, jobs, result, pool, workers, top, everything):
        self.jobs, self.result, self.pool, self.workers = jobs, result, pool, workers
        self.top, self.everything, self.best = top, everything, float("inf")
        self.skipped = []  # simulated only if too few others fit: (expected, least, plan)
        self.running, self.probes, self.heap = {}, {}, []
        self.waiting = {}  # plans that wait for a probe, by its key
        for plan, job in jobs.items():
            self._add(plan, bounds_of(job), probed=False)

    def run(self):
        while self.running or self.heap or self._too_few_fit():
            while self.heap and len(self.running) < self.workers:
                self._take_next()
            if not self.heap and not self.running and self._too_few_fit():
                self._simulate_skipped()
            if self.running:
                self._collect()
                left = len(self.heap) + sum(map(len, self.waiting.values()))
                self.result.most = self.result.simulated + len(self.running) + left
        self.result.skipped = len(self.skipped)

    def _simulate_skipped(self):
        """Simulate those that are expected to be the fastest, to fill the table."""
        self.skipped.sort(key=lambda one: one[:2])
        for _ in range(min(self.workers, len(self.skipped))):
            *_, plan = self.skipped.pop(0)
            self._start(("step", plan), simulate, self.jobs[plan])

    def _too_few_fit(self):
        return self.skipped and len(self.result.tried) < self.top

    def _add(self, plan, bounds, probed):
        memory = self.jobs[plan].cluster.gpu.memory
        if bounds.memory > ROOM * memory and not self.everything:
            self._reject(plan, bounds.memory)
        else:
            kind = "formula" if not probed else "pipeline" if plan.pp > 1 else "one stage"
            expected = bounds.seconds / USUAL[kind]
            entry = expected, plan.micro_batch, str(plan), probed, bounds.seconds, plan
            heapq.heappush(self.heap, entry)

    def _reject(self, plan, memory):
        self.result.rejected[TOO_LARGE] += 1
        self.result.too_large[plan] = memory

    def _take_next(self):
        """Take the plan with the lowest expected time: skip it, tighten its bound, or simulate."""
        expected, *_, probed, least, plan = heapq.heappop(self.heap)
        if least >= self.best * (1 - GAIN) and not self.everything:
            self.skipped.append((expected, least, plan))
            return
        job, smaller = self.jobs[plan], replace(plan, micro_batch=max(plan.micro_batch // 2, 1))
        if smaller in self.result.too_large and not job.model.has_sizes:
            self._reject(plan, self.result.too_large[smaller])  # it has no other bound
            return
        key = None if probed or self.everything else probe_key(job)
        if key is None:
            self._start(("step", plan), simulate, job)
        elif key in self.probes:
            self._tighten(plan, self.probes[key])
        elif key in self.waiting:
            self.waiting[key].append(plan)
        else:
            self.waiting[key] = [plan]
            self._start(("probe", key), probe, key)

    def _start(self, what, call, job):
        self.running[self.pool.submit(call, job)] = what

    def _tighten(self, plan, layer):
        self._add(plan, bounds_of(self.jobs[plan], layer), probed=True)

    def _collect(self):
        for future in wait(self.running, return_when=FIRST_COMPLETED).done:
            kind, what = self.running.pop(future)
            if kind == "probe":
                self._probed(what, future)
            else:
                self._simulated(what, future)

    def _probed(self, key, future):
        try:
            self.probes[key] = future.result()
        except PlanError:
            self.probes[key] = None
        for plan in self.waiting.pop(key):
            self._tighten(plan, self.probes[key])

    def _simulated(self, plan, future):
        self.result.simulated += 1
        try:
            tried = Tried(plan, self.jobs[plan], future.result())
        except PlanError as error:
            self.result.rejected[NOT_RUN] += 1
            self.result.failure = error
            return
        if not tried.fits:
            self._reject(plan, tried.step.memory)
            return
        self.result.tried.append(tried)
        self.best = min(self.best, tried.step.seconds)
