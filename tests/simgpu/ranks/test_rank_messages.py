"""Messages wait in queues as NCCL's do: what crosses hangs, and the error says where and why."""

import gc
import random
import re
import sys
from collections import defaultdict

import pytest
import torch
import torch.distributed as dist

import simgpu as sim

BIG = 2**22  # elements, above what NCCL's buffers hold


def run(program, k, eager=False, numerics=False):
    """Run ``program(rank, device)`` on A100s; return the results, or the deadlock's text."""

    def with_group(rank):
        device = torch.device("sim", rank)
        dist.init_process_group(**({"device_id": device} if eager else {}))
        return program(rank, device)

    try:
        return sim.spawn(with_group, nprocs=k, gpu="a100", link="nvlink3", numerics=numerics)
    except sim.RanksError as error:
        return str(error)


def line(offset=0):
    """Return ``file:line`` of the caller."""
    return f"test_rank_messages.py:{sys._getframe(1).f_lineno + offset}"


def batch(*calls):
    """Hand over calls ``(function, tensor, peer)`` at once, and wait."""
    for work in dist.batch_isend_irecv([dist.P2POp(*call) for call in calls]):
        work.wait()


def one_f_one_b(p, m, batched):
    """Return the program of a pipeline that sends by `isend` and receives by `recv`."""

    def program(rank, device):
        works = []

        def step(outgoing, incoming):
            """Send to some ranks and receive from others."""
            x = torch.empty(BIG, device=device)
            if batched and (outgoing or incoming):
                batch(
                    *((dist.isend, x, peer) for peer in outgoing),
                    *((dist.irecv, torch.empty_like(x), peer) for peer in incoming),
                )
            else:
                works.extend(dist.isend(x, peer) for peer in outgoing)
                for peer in incoming:
                    dist.recv(torch.empty_like(x), peer)

        before = [rank - 1] if rank > 0 else []
        after = [rank + 1] if rank < p - 1 else []
        ahead = min(p - 1 - rank, m)
        for _ in range(ahead):
            step([], before)
            step(after, [])
        for i in range(m):  # a forward pass, if one is left, and a backward pass
            if i == 0 and i + ahead < m:
                step([], before)
            if i + ahead < m:
                step(after, after)
            else:
                step([], after)
            last = i + ahead + 1 >= m
            step(before, [] if last else before)
        for work in works:
            work.wait()

    return program


@pytest.mark.slow
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8)])
@pytest.mark.parametrize("eager", [False, True])
def test_1f1b_needs_batches(p, m, eager):
    text = run(one_f_one_b(p, m, batched=False), p, eager)
    assert "deadlock: no rank can go on" in text
    assert f"which is queued on rank {p - 2} behind send to rank {p - 1}" in text
    assert f"which is queued on rank {p - 1} behind send to rank {p - 2}" in text
    assert "dist.batch_isend_irecv" in text
    assert run(one_f_one_b(p, m, batched=True), p, eager) == [None] * p


@pytest.mark.parametrize("size", [1, BIG])
@pytest.mark.parametrize("waits", [True, False])
def test_two_ranks_that_both_send_first(size, waits):
    lines = {}

    def program(rank, device):
        x, y = (torch.empty(size, device=device) for _ in range(2))
        lines["send"] = line(1)
        works = [dist.isend(x, 1 - rank)]
        lines["recv"] = line(1)
        works.append(dist.irecv(y, 1 - rank))
        for work in works if waits else ():
            work.wait()

    text = run(program, 2)
    for rank in range(2):
        call = f"send to rank {1 - rank} ({lines['send']})"
        queued = f"which is queued on rank {1 - rank} behind send to rank {rank} ({lines['send']})"
        verb = "waits in" if waits else "called"
        assert f"rank {rank} {verb} {call}, {queued}" in text
    assert lines["recv"] in text or waits
    for word in ("dist.batch_isend_irecv", "even ranks send first", "small messages"):
        assert word in text


def test_interleaved_messages_of_any_size_hang():
    """The example of pytorch/pytorch issue 109401: hangs on NCCL with one element."""

    def program(rank, device):
        x = torch.zeros(1, device=device)
        if rank == 0:
            dist.isend(x, 1).wait()
        else:
            dist.irecv(x, 0).wait()
        order = (dist.irecv, dist.isend, dist.irecv)
        order = order if rank == 0 else (dist.irecv, dist.isend, dist.isend)
        for work in [call(torch.zeros(1, device=device), 1 - rank) for call in order]:
            work.wait()

    assert "behind recv from rank" in run(program, 2)


def ring(rank, device, how):
    k = dist.get_world_size()
    x, y = torch.full((4,), float(rank), device=device), torch.empty(4, device=device)
    send, receive = (dist.isend, x, (rank + 1) % k), (dist.irecv, y, (rank - 1) % k)
    if how == "batch":
        batch(send, receive)
    else:
        first, second = (receive, send) if how == "even and odd" and rank % 2 else (send, receive)
        for work in [call(t, peer) for call, t, peer in (first, second)]:
            work.wait()
    return y[0].item()


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_ring(k, eager):
    expected = [float((rank - 1) % k) for rank in range(k)]
    for how in ("batch", *(["even and odd"] if k % 2 == 0 else ())):
        assert run(lambda r, d, how=how: ring(r, d, how), k, eager, numerics=True) == expected
    text = run(lambda r, d: ring(r, d, "send first"), k, eager)
    why = "which is queued on rank 1 behind send" if eager or k == 2 else "their first message"
    assert re.search(rf"rank 0 waits in send to rank 1 \(\S+\), {why}", text)
    assert "dist.batch_isend_irecv" in text


@pytest.mark.parametrize("eager", [False, True])
def test_pairs_have_queues_of_their_own_without_a_device(eager):
    """Rank 0 receives from 2 what 2 sends after rank 1 has received: its message to 1 is late."""

    def program(rank, device):
        x, y = (torch.empty(BIG, device=device) for _ in range(2))
        if rank == 0:
            works = [dist.isend(x, 1), dist.irecv(y, 2)]
        elif rank == 1:
            dist.send(x, 2)
            works = [dist.irecv(y, 0)]
        else:
            works = [dist.isend(x, 0)]
            works.append(dist.irecv(y, 1))
        for work in works:
            work.wait()

    # With one queue for all: 0 -> 1 waits for 1 -> 2, that for 2 -> 0, and that for 0 -> 1.
    # With queues of pairs the communicators are met in the same circle, unless they exist.
    def acquainted(rank, device):
        for a, b in ((0, 1), (1, 2), (0, 2)):
            if rank in (a, b):
                x = torch.empty(1, device=device)
                dist.send(x, b) if rank == a else dist.recv(x, a)
        program(rank, device)

    found = run(acquainted, 3, eager)
    assert "queued on rank 0 behind send to rank 1" in found if eager else found == [None] * 3
    text = run(program, 3, eager)
    assert ("queued" if eager else "their first message, for rank") in text


def test_messages_of_the_host_have_no_queue():
    def program(rank, device):
        x, y = torch.ones(4) * rank, torch.empty(4)
        for work in [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]:
            work.wait()
        return y[0].item()

    assert run(program, 2, numerics=True) == [1.0, 0.0]


def test_a_batch_and_a_single_message_do_not_match():
    def program(rank, device):
        x = torch.empty(4, device=device)
        batch((dist.isend, x, 1)) if rank == 0 else dist.recv(x, 0)

    text = run(program, 2)
    assert "rank 0 waits in send to rank 1" in text
    assert "rank 1 waits in recv from rank 0" in text
    assert run(program, 2, eager=True) == [None] * 2


def test_messages_of_one_batch_must_not_share_a_tensor():
    def program(rank, device):
        x = torch.empty(4, device=device)
        batch((dist.isend, x, 1 - rank), (dist.irecv, x, 1 - rank))

    assert "changes a tensor that is still read by send" in run(program, 2)


@pytest.mark.parametrize("waited", [0, 1])
def test_all_works_of_a_batch_are_waited_for(waited):
    """NCCL returns one work, gloo one a message: a program that runs on both waits for all."""

    def program(rank, device):
        x, y = torch.full((4,), rank + 1.0, device=device), torch.empty(4, device=device)
        calls = (dist.isend, x, 1 - rank), (dist.irecv, y, 1 - rank)
        dist.batch_isend_irecv([dist.P2POp(*call) for call in calls])[waited].wait()
        x.zero_() if waited else y.sum().item()

    assert "before its wait(); call wait() on the work first" in run(program, 2)


@pytest.mark.slow
def test_a_batch_frees_its_tensors_without_the_garbage_collector():
    def program(rank, device):
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                x, y = (torch.empty(BIG, device=device) for _ in range(2))
                calls = (dist.isend, x, 1 - rank), (dist.irecv, y, 1 - rank)
                works = dist.batch_isend_irecv([dist.P2POp(*call) for call in calls])
                for work in works:
                    work.wait()
                work = None
                del x, y, works, calls
            batch((dist.isend, torch.empty(1, device=device), 1 - rank),
                  (dist.irecv, torch.empty(1, device=device), 1 - rank))  # fmt: skip
            return sim.memory_allocated(device)
        finally:
            gc.enable()

    assert run(program, 2) == [0, 0]


# Random programs. An operation is a list of messages, each (is a send, peer), whether they are a
# batch, and whether the rank waits for them at once.


def random_programs(rng, k):
    """Return the operations of each rank, in an order that may hang."""
    own = [{True: [], False: []} for _ in range(k)]  # rank -> by batched
    for _ in range(rng.randint(2, 7)):
        source, target = rng.sample(range(k), 2)
        batched = rng.random() < 0.4
        own[source][batched].append((True, target))
        own[target][batched].append((False, source))
    programs = []
    for found in own:
        operations = [[[message], False, rng.random() < 0.4] for message in found[False]]
        rng.shuffle(found[True])
        while found[True]:
            size = rng.randint(1, 4)
            operations.append([found[True][:size], True, rng.random() < 0.4])
            del found[True][:size]
        rng.shuffle(operations)
        programs.append(operations)
    return programs


def matched(programs, eager):
    """Return the messages: pairs of places ``(rank, operation, index)``, of sender and receiver."""
    ends = defaultdict(lambda: ([], []))
    for rank, operations in enumerate(programs):
        for i, (messages, batched, _) in enumerate(operations):
            for j, (is_send, peer) in enumerate(messages):
                pair = (rank, peer) if is_send else (peer, rank)
                ends[pair, batched and not eager][not is_send].append((rank, i, j))
    if any(len(sent) != len(got) for sent, got in ends.values()):
        raise AssertionError("every message has two ends")
    return [pair for sent, got in ends.values() for pair in zip(sent, got, strict=True)]


def hangs(programs, eager):
    """Whether the events of programs wait for each other in a circle.

    An event is that a rank reaches an operation, has issued it, or that a message has ended.
    """
    needs, messages_of, first = defaultdict(set), defaultdict(list), {}
    for number, places in enumerate(matched(programs, eager)):
        for rank, i, _ in places:
            messages_of[rank, i].append(("ended", number))
            needs["ended", number].add(("issued", rank, i))
    for rank, operations in enumerate(programs):
        last = {}  # queue -> operation
        for i, (messages, batched, waits) in enumerate(operations):
            needs["issued", rank, i].add(("reached", rank, i))
            if i + 1 < len(operations):
                needs["reached", rank, i + 1].add(("issued", rank, i))
                needs["reached", rank, i + 1].update(messages_of[rank, i] if waits else ())
            peer = messages[0][1]
            queue = "group" if eager or batched else peer
            if queue in last:
                for message in messages_of[rank, i]:
                    needs[message].update(messages_of[rank, last[queue]])
            elif queue == peer:
                first[rank, peer] = i
            last[queue] = i
    for (rank, peer), i in first.items():
        needs["issued", rank, i].add(("reached", peer, first[peer, rank]))
    return has_circle(needs)


def has_circle(needs):
    """Search a graph for a circle, depth first."""
    done, path = set(), set()

    def visit(event):
        if event in done:
            return False
        if event in path:
            return True
        path.add(event)
        found = any(visit(other) for other in needs.get(event, ()))
        path.discard(event)
        done.add(event)
        return found

    return any(visit(event) for event in list(needs))


def check(rng, k, eager):
    """Run a random program, and compare it with the graph; return whether it hangs."""
    programs = random_programs(rng, k)

    def program(rank, device):
        works, received = [], {}
        for i, (messages, batched, waits) in enumerate(programs[rank]):
            calls = []
            for j, (is_send, peer) in enumerate(messages):
                x = torch.tensor([float(100 * rank + 10 * i + j)], device=device)
                if not is_send:
                    received[rank, i, j] = x
                calls.append((dist.isend if is_send else dist.irecv, x, peer))
            if batched:
                issued = dist.batch_isend_irecv([dist.P2POp(*call) for call in calls])
            else:
                issued = [call(x, peer) for call, x, peer in calls]
            works += issued
            for work in issued if waits else ():
                work.wait()
        for work in works:
            work.wait()
        return {place: x.item() for place, x in received.items()}

    found, expected = run(program, k, eager, numerics=True), hangs(programs, eager)
    if expected:
        assert isinstance(found, str), programs
        assert "dist.batch_isend_irecv" in found, (programs, found)
    else:
        assert not isinstance(found, str), (programs, found)
        for sent, (rank, i, j) in matched(programs, eager):
            assert found[rank][rank, i, j] == 100 * sent[0] + 10 * sent[1] + sent[2]
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True])
def test_random_programs_hang_if_their_graph_has_a_circle(eager):
    outcomes = [check(random.Random(seed), 2 + seed % 3, eager) for seed in range(24)]
    assert 4 < sum(outcomes) < 20, "both must happen"


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_many_random_programs(seed):
    rng = random.Random(seed)
    for _ in range(50):
        check(rng, rng.randint(2, 5), rng.random() < 0.5)
