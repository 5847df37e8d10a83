"""What the checkers say of half a ring, of an unbalanced allreduce, and of wrong estimates."""

import math

import torch
from support.samples.solutions import make_tests, refuses, returns_nothing

from d2lmini import training
from d2lmini.checks import scratch as checks
from d2lmini.collectives import allreduce_ring

RIGHT, WRONG = {}, {}


def half_ring(first=-1, add=torch.Tensor.add_, steps=-1, neighbour=1):
    """Return a reduce-scatter in which device i sends chunk ``i + first`` in the first step."""

    def ring_reduce_scatter(data):
        k = len(data)
        chunks = [d.view(-1).tensor_split(k) for d in data]
        for step in range(k + steps if k > 1 else 0):
            for i in [*range(0, k, 2), *range(1, k, 2)]:
                j, to = (i + first - step) % k, (i + neighbour) % k
                add(chunks[to][j], chunks[i][j].to(data[to].device))

    return ring_reduce_scatter


def sends_originals(data):
    """Forget that what travels on is the partial sum."""
    k = len(data)
    chunks = [d.view(-1).tensor_split(k) for d in data]
    own = [[c.clone() for c in mine] for mine in chunks]
    for step in range(k - 1):
        for i in range(k):
            j, right = (i - 1 - step) % k, (i + 1) % k
            chunks[right][j].add_(own[i][j].to(data[right].device))


def straight_to_the_owner(data):
    k = len(data)
    chunks = [d.view(-1).tensor_split(k) for d in data]
    for i in range(k):
        for j in range(k):
            if i != j:
                chunks[j][j].add_(chunks[i][j].to(data[j].device))


def whole_tensors(data):
    """Let whole tensors travel round, and keep one chunk of their sum."""
    k = len(data)
    travelling, total = list(data), [d.clone() for d in data]
    for _ in range(k - 1):
        travelling = [travelling[i - 1].to(data[i].device) for i in range(k)]
        total = [t + x for t, x in zip(total, travelling, strict=True)]
    for d, t in zip(data, total, strict=True):
        d.copy_(t)


def rebinds(data):
    data[:] = [sum(d.cpu() for d in data).to(mine.device) for mine in data]


RIGHT["reduce_scatter"] = (
    half_ring(),
    lambda data: half_ring()(data) or data[0],  # what it returns is free
)
WRONG["reduce_scatter"] = {
    r"k=2, 12 elements: chunk 0 of device 0 was not changed; add to it in place": returns_nothing,
    r"device 0 holds the sum of chunk 1, and should hold that of chunk 0; begin": half_ring(0),
    r"chunk 0 of device 0 was not changed": half_ring(steps=-2),
    r"takes in 3 chunks; in 2 steps of one chunk each": half_ring(steps=0),
    r"what travels on is the partial sum": sends_originals,
    r"the sum of the chunks 0 of all devices is": half_ring(add=torch.Tensor.copy_),
    r"sim:1 sends to sim:0; in the ring it sends to sim:2 only": training.allreduce,
    r"sim:0 sends to sim:2; in the ring it sends to sim:1 only": straight_to_the_owner,
    r"takes in 4 chunks; in 2 steps of one chunk each it takes in 2": lambda data: allreduce_ring(
        data
    ),
    r"takes in 6 chunks; in 2 steps": whole_tensors,
    r"add to it in place, in the tensors of `data`": rebinds,
    r"raised RuntimeError.*copy one to the other's device": lambda data: half_ring(
        add=lambda to, sent: to.add_(sent.to(data[0].device))
    )(data),
}


def test_an_allreduce_through_one_device_is_refused_where_balance_is_asked_for(capsys):
    def balanced(allreduce):
        checks.check_allreduce(allreduce, balanced=True)

    refuses(balanced, training.allreduce, r"k=3, .*sim:0 takes in 2.00 times.*1.33 are enough")
    balanced(allreduce_ring)
    checks.check_allreduce(training.allreduce)
    assert capsys.readouterr().out == "allreduce: passed\n" * 2


def predict(k, batch_size, rate, nbytes, bandwidth, latency):
    steps = 2 * (k - 1)
    return batch_size / k / rate + steps / k * nbytes / bandwidth + steps * latency


RIGHT["predict_step"] = predict
WRONG["predict_step"] = {
    "predict_step returned|must be a number": returns_nothing,
    "one GPU sends nothing": lambda k, *others: predict(k, *others) + (k == 1) * others[-1],
    "forgets the allreduce": lambda k, n, rate, N, b, latency: n / k / rate,
    "forgets the latencies": lambda k, n, rate, N, b, latency: predict(k, n, rate, N, b, 0),
    "forgets the bytes": lambda k, n, rate, N, b, latency: predict(k, n, rate, 0, b, latency),
    "divide by k": lambda k, n, rate, N, b, latency: predict(k, n * k, rate, N, b, latency),
    "a reduce-scatter or an all-gather alone": lambda k, n, rate, N, b, latency: predict(
        k, n, rate, N / 2, b, latency / 2
    ),
    "half of the bytes": lambda k, n, rate, N, b, latency: predict(k, n, rate, N / 2, b, latency),
    "that is one latency": lambda k, n, rate, N, b, latency: (
        predict(k, n, rate, N, b, 0) + latency * (k > 1)
    ),
    "travel at the same time": lambda k, n, rate, N, b, latency: predict(
        k, n, rate, N, b, k * latency
    ),
    "not all of them": lambda k, n, rate, N, b, latency: predict(k, n, rate, k * N, b, latency),
    "milliseconds": lambda *arguments: 1e3 * predict(*arguments),
    "add the three terms up": lambda *arguments: 1.5 * predict(*arguments),
    "raised ZeroDivisionError": lambda k, n, rate, N, b, latency: n / (k - 2),
}


def smallest(k, rate, nbytes, bandwidth, latency):
    return 2 * rate * (nbytes / bandwidth + k * latency)


def searched(k, rate, nbytes, bandwidth, latency):
    """Find the first whole number by halving, as one may who does not solve the inequality."""
    low, high = 0, 2**40
    while high - low > 1:
        n = (low + high) // 2
        pays = predict(k, n, rate, nbytes, bandwidth, latency) < n / rate
        low, high = (low, n) if pays else (n, high)
    return high


RIGHT["break_even"] = smallest, searched, lambda *arguments: math.ceil(smallest(*arguments))
WRONG["break_even"] = {
    "break_even says 0; on 0 images the GPUs lose": lambda *arguments: 0,
    "images would be enough": lambda *arguments: 2 * smallest(*arguments),
    "inf; .* images would be enough": lambda *arguments: math.inf,
    "save the part 1 - 1/k of the time": lambda k, rate, N, b, latency: (
        rate * (2 * (k - 1) / k * N / b + 2 * (k - 1) * latency)
    ),
    "lose more by the allreduce than they gain": lambda k, rate, N, b, latency: smallest(
        k, rate, N, b, 0
    ),
    "nan; ": lambda *arguments: math.nan,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
