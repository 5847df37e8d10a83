"""The search: the plan with the lowest bound is simulated first, until no other can be faster."""

import heapq
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from simgpu.plan.errors import has_band
from simgpu.plan.simulate import Simulated, simulate
from simgpu.plan.step.job import PlanError
from simgpu.search.floors import floor, probe, probe_key

MANY = 64  # GPUs: from here on a search is long enough for several processes
GAIN = 0.05  # a plan that can be faster than the best by less is not simulated
# What bounds usually are of the time, by formula and by probe: they decide the order alone.
USUAL = {"formula": 0.63, "one stage": 0.97, "pipeline": 0.92}
ROOM = 0.9  # of a GPU's memory; the rest is for the CUDA context, NCCL, and errors of the peak
TOO_LARGE = f"needs more than {ROOM:.0%} of a GPU's memory"
NOT_RUN = "its program does not run"
NOT_KNOWN = "context parallelism, whose error is not known: others fit (--cp N searches it)"


@dataclass(frozen=True)
class Tried:
    """A plan that was simulated: what it is, its job, and what it takes."""

    plan: object
    job: object
    found: Simulated

    @property
    def fits(self):
        """Whether the peak of what tensors take leaves room."""
        return self.found.memory <= ROOM * self.job.cluster.gpu.memory


@dataclass
class Search:
    """What a search has found.

    Attributes
    ----------
    tried : list of Tried
        Plans that were simulated and fit, the fastest first.
    rejected : collections.Counter
        How many plans cannot be, or do not fit, by reason.
    skipped : int
        Plans that can be faster than one that was simulated by less than `GAIN`: not simulated.
    too_large : dict
        Bytes that plans need at least, of those that do not fit.
    least : float
        The lowest bound of those, in seconds.
    simulated : int
        How many steps were simulated, those that did not fit included.
    """

    tried: list = field(default_factory=list)
    rejected: Counter = field(default_factory=Counter)
    skipped: int = 0
    too_large: dict = field(default_factory=dict)
    simulated: int = 0
    least: float = float("inf")


class _Here:
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

    Those whose error is not known (`errors.has_band`) are looked at only if none of the others
    fits, whatever `top` and `everything` say.

    Parameters
    ----------
    jobs : dict
        `Job` of each plan.
    rejected : collections.Counter
        Reasons of those that cannot be.
    workers : int
        Processes; 1: this one.
    top : int
        So many plans are simulated at least, if so many fit.
    everything : bool
        Simulate every plan, whatever its bounds: for tests.
    """
    result = Search(rejected=Counter(rejected))
    pool = _Here() if workers == 1 else ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _quiet
    )  # fmt: skip
    try:
        for known in (True, False):
            part = {plan: job for plan, job in jobs.items() if has_band(plan) == known}
            if result.tried and part:
                result.rejected[NOT_KNOWN] = len(part)
            else:
                _Loop(part, result, pool, workers, top, everything).run()
    finally:
        pool.shutdown(cancel_futures=True)
        _show("")
    result.tried.sort(key=lambda one: (one.found.seconds, str(one.plan)))
    return result


def _quiet():
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")


def _show(progress):
    """Show how far the search is, on a terminal; the next text takes its place."""
    if sys.stderr.isatty():
        print(f"\r{progress:<50}\r", end="", file=sys.stderr, flush=True)


class _Loop:
    def __init__(self, jobs, result, pool, workers, top, everything):
        self.jobs, self.result, self.pool, self.workers = jobs, result, pool, workers
        self.top, self.later = top, []  # plans that are simulated only if too few fit
        self.everything, self.best = everything, float("inf")
        self.running, self.layers, self.heap = {}, {}, []
        self.asked = {}  # plans that wait for a probe, by what is probed
        for plan, job in jobs.items():
            self._add(plan, floor(job), probed=False)

    def run(self):
        while self.running or self.heap or self._fewer():
            while self.heap and len(self.running) < self.workers:
                self._next()
            if not self.heap and not self.running and self._fewer():
                self._once_more()
            if self.running:
                self._collect()
                waiting = len(self.heap) + sum(map(len, self.asked.values()))
                _show(f"{self.result.simulated} plans simulated, {waiting} to decide on")
        left = [least for _, least, _ in self.later]
        self.result.skipped, self.result.least = len(left), min(left, default=float("inf"))

    def _once_more(self):
        """Simulate the most promising ones of those that cannot gain enough, for the table."""
        self.later.sort(key=lambda one: one[:2])
        for _ in range(min(self.workers, len(self.later))):
            plan = self.later.pop(0)[2]
            self._start(("step", plan), simulate, self.jobs[plan])

    def _fewer(self):
        return self.later and len(self.result.tried) < self.top

    def _add(self, plan, bounds, probed):
        memory = self.jobs[plan].cluster.gpu.memory
        if bounds.memory > ROOM * memory and not self.everything:
            self._reject(plan, bounds.memory)
        else:
            kind = "formula" if not probed else "pipeline" if plan.pp > 1 else "one stage"
            promise = bounds.seconds / USUAL[kind]
            heapq.heappush(self.heap, (promise, str(plan), probed, bounds.seconds, plan))

    def _reject(self, plan, memory):
        self.result.rejected[TOO_LARGE] += 1
        self.result.too_large[plan] = memory

    def _next(self):
        """Take the most promising plan: skip it, tighten its bound, or simulate it."""
        promise, _, probed, least, plan = heapq.heappop(self.heap)
        if least >= self.best * (1 - GAIN) and not self.everything:
            self.later.append((promise, least, plan))
            return
        job = self.jobs[plan]
        key = None if probed or self.everything else probe_key(job)
        if key is None:
            self._start(("step", plan), simulate, job)
        elif key in self.layers:
            self._better(plan, self.layers[key])
        elif key in self.asked:
            self.asked[key].append(plan)
        else:
            self.asked[key] = [plan]
            self._start(("layer", key), probe, key)

    def _start(self, what, call, job):
        self.running[self.pool.submit(call, job)] = what

    def _better(self, plan, layer):
        bounds = floor(self.jobs[plan], layer)
        self._add(plan, bounds, probed=True)

    def _collect(self):
        for future in wait(self.running, return_when=FIRST_COMPLETED).done:
            kind, what = self.running.pop(future)
            if kind == "layer":
                self._probed(what, future)
            else:
                self._simulated(what, future)

    def _probed(self, key, future):
        try:
            self.layers[key] = future.result()
        except PlanError:
            self.layers[key] = None
        for plan in self.asked.pop(key):
            self._better(plan, self.layers[key])

    def _simulated(self, plan, future):
        self.result.simulated += 1
        try:
            tried = Tried(plan, self.jobs[plan], future.result())
        except PlanError:
            self.result.rejected[NOT_RUN] += 1
            return
        if not tried.fits:
            self._reject(plan, tried.found.memory)
            return
        self.result.tried.append(tried)
        self.best = min(self.best, tried.found.seconds)
