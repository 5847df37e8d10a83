"""Checker of a scheduler of task graphs, which runs them on two simulated GPUs."""

import random

import torch

import simgpu as sim
from d2lmini.checks.shared.results import describe, tensor
from d2lmini.checks.shared.slow_machine import EPSILON, GPU, LINK, SIZE, close, matrices
from d2lmini.checks.shared.solution import checker


@checker("run_any_graph(graph, placement, work)")
def check_run_any_graph(run_any_graph):
    """Check a function that runs a graph of tasks on several devices.

    Parameters
    ----------
    run_any_graph : callable
        ``run_any_graph(graph, placement, work)`` returning the results of all tasks. `graph` maps
        tasks to their inputs, `placement` maps them to devices, and ``work(task, inputs)`` launches
        a task and returns its result.

    Raises
    ------
    AssertionError
        If a result is wrong or missing, a task starts before its inputs are ready, the current
        streams do not wait for the results, tasks wait unnecessarily, streams race, or a cycle is
        not detected.

    Examples
    --------
    >>> check_run_any_graph(lambda graph, placement, work: {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: the diamond: no result for a, b, c, d...
    """
    diamond = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    run = GraphRun("the diamond", diamond, {"a": 0, "b": 0, "c": 1, "d": 0}, long=("b", "c"))
    run.check(run_any_graph)
    run.check_speed()
    run.check_races(run_any_graph)
    for seed in range(12):
        run = GraphRun(f"random graph {seed}", *random_graph(seed))
        run.check(run_any_graph)
        run.check_races(run_any_graph)
    devices = sim.configure(2, gpu=GPU, link=LINK)
    try:
        run_any_graph(
            {"a": ("b",), "b": ("a",)},
            {"a": devices[0], "b": devices[1]},
            lambda task, inputs: sum(inputs) if inputs else torch.ones(2, device=devices[0]),
        )
    except AssertionError as error:
        if isinstance(error.__cause__, ValueError):
            print("run_any_graph: passed")
        else:
            said = repr(error.__cause__ or error)
            raise AssertionError(
                f"a graph with a cycle gave {said}; raise a ValueError that says so"
            ) from error.__cause__
    else:
        raise AssertionError("a graph with a cycle was not refused; raise a ValueError")


def random_graph(seed):
    """Draw a graph of 8 tasks in random order, and a placement on two devices."""
    draw = random.Random(seed)
    tasks = [f"t{i}" for i in range(8)]
    graph = {
        task: tuple(draw.sample(tasks[:i], draw.randint(1, min(i, 3)) if i else 0))
        for i, task in enumerate(tasks)
    }
    order = draw.sample(tasks, len(tasks))
    return {task: graph[task] for task in order}, {task: draw.randrange(2) for task in tasks}


class GraphRun:
    """A run of one graph on two simulated GPUs, and the checks of that run."""

    def __init__(self, name, graph, placement, long=()):
        self.name, self.graph, self.placement, self.long = name, graph, placement, long
        self.numbers = {task: i for i, task in enumerate(sorted(graph))}

    def work(self, task, inputs):
        """Sum the inputs and a matrix of the task, multiply, and record the kernels' time span."""
        before = len(sim.trace())
        assert task in self.graph, f"{self.name}: work was called for {task!r}, which is no task"
        wanted = len(self.graph[task])
        assert isinstance(inputs, list | tuple), (
            f"{self.name}: work(task, inputs) got {describe(inputs)}; give it a list of inputs"
        )
        assert len(inputs) == wanted, f"{self.name}: {task} got {len(inputs)} inputs, not {wanted}"
        for value in inputs:
            tensor(value, f"{self.name}: an input of {task}", (SIZE, SIZE))
            assert value.device == self.devices[task], (
                f"{self.name}: {task} runs on {self.devices[task]} but got an input on "
                f"{value.device}; copy inputs to the task's device"
            )
        x = sum(inputs, start=self.own[task])
        for _ in range(2 if task in self.long else 1):
            x = x @ self.weight[self.devices[task]]
        kernels = [span for span in sim.trace()[before:] if span.engine == "compute"]
        self.spans[task] = (min(k.start for k in kernels), max(k.end for k in kernels))
        return x

    def expected(self):
        """Return all results, computed on the host in order."""
        values = {}
        while len(values) < len(self.graph):
            for task, sources in self.graph.items():
                if task not in values and all(source in values for source in sources):
                    x = sum((values[s] for s in sources), start=self.host[self.numbers[task]])
                    for _ in range(2 if task in self.long else 1):
                        x = x @ self.host[-1]
                    values[task] = x
        return values

    def check(self, run_any_graph):
        """Run the graph; raise AssertionError for wrong results and for tasks that did not wait."""
        self._prepare()
        begin = sim.now()
        values = self._run(run_any_graph)
        assert isinstance(values, dict), (
            f"{self.name}: run_any_graph returned {describe(values)}; a dictionary of task: result "
            "is needed"
        )
        missing = sorted(set(self.graph) - set(values))
        assert not missing, f"{self.name}: no result for {', '.join(missing)}"
        idle = sorted(set(self.graph) - set(self.spans))
        assert not idle, f"{self.name}: {', '.join(idle)} never ran; call work(task, inputs)"
        for task in self.graph:
            what = f"{self.name}: the result of {task}"
            tensor(values[task], what, (SIZE, SIZE), self.devices[task])
        self._check_order()
        self._check_handover({task: values[task] for task in self.graph})
        sim.synchronize()
        self.elapsed = max(end for _, end in self.spans.values()) - begin
        for task, wanted in self.expected().items():
            assert close(values[task].cpu(), wanted), f"{self.name}: {task} has a wrong result"

    def check_races(self, run_any_graph):
        """Run the graph under the race detector."""
        self._prepare()
        with sim.check_races(nested=True):
            self._run(run_any_graph)

    def _prepare(self):
        """Put the tasks' matrices on two new devices."""
        devices = sim.configure(2, gpu=GPU, link=LINK)
        self.host = matrices(len(self.graph) + 1)
        self.devices = {task: devices[i] for task, i in self.placement.items()}
        self.weight = {device: self.host[-1].to(device) for device in devices}
        self.own = {t: self.host[i].to(self.devices[t]) for t, i in self.numbers.items()}
        self.spans = {}
        sim.synchronize()

    def _run(self, run_any_graph):
        return run_any_graph.at(self.name)(dict(self.graph), dict(self.devices), self.work)

    def _check_order(self):
        for task, sources in self.graph.items():
            start, _ = self.spans[task]
            for source in sources:
                _, end = self.spans[source]
                assert start >= end - EPSILON, (
                    f"{self.name}: {task} started {1e3 * (end - start):.2f} ms before its input "
                    f"{source} was ready; let its stream wait for the event of {source}, and "
                    "record that event before any stream waits for it"
                )

    def _check_handover(self, values):
        """Check that a copy of each result in the current stream starts after its task ends."""
        for task, value in values.items():
            sim.empty_pinned(SIZE, SIZE).copy_(value, non_blocking=True)
            copy = sim.trace()[-1]
            assert copy.start >= self.spans[task][1] - EPSILON, (
                f"{self.name}: the current stream of {value.device} does not wait for {task}; "
                "let it wait for the events of all tasks at the end"
            )

    def check_speed(self):
        """Raise AssertionError if the run was slower than the diamond's critical path."""
        step = GPU.seconds(2 * SIZE**3, 3 * 4 * SIZE**2)
        copy = LINK.peer_seconds(4 * SIZE**2)
        critical = 4 * step + 2 * copy
        assert self.elapsed <= 1.1 * critical, (
            f"{self.name} took {1e3 * self.elapsed:.2f} ms, its critical path "
            f"{1e3 * critical:.2f}: a task waits for more than its inputs; give each task a "
            "stream of its own"
        )
