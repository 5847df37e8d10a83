"""Programs that simulated GPUs refuse: the error names what was asked for, and the way round it."""

import multiprocessing
import threading

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import simgpu as sim


@pytest.fixture
def devices():
    return sim.configure(2)


def test_data_parallel_in_the_usual_order(devices):
    net = nn.DataParallel(nn.Linear(3, 3), device_ids=devices).to(devices[0])
    with pytest.raises(NotImplementedError, match=r"DataParallel.*split the batch yourself"):
        net(torch.ones(4, 3, device=devices[0]))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["module", "function"])
def test_compiled_programs(devices, what):
    net = nn.Linear(3, 3).to(devices[0])
    program = torch.compile(net if what == "module" else lambda x: net(x) + 1, backend="eager")
    with pytest.raises(RuntimeError, match=r"torch\.compile .* simulated GPUs.* call the function"):
        program(torch.ones(4, 3, device=devices[0]))
    assert net(torch.ones(4, 3, device=devices[0])).device == devices[0]


def test_exported_programs(devices):
    net = nn.Linear(3, 3).to(devices[0])
    with pytest.raises(NotImplementedError, match=r"torch\.export .* simulated GPUs"):
        torch.export.export(net, (torch.ones(4, 3, device=devices[0]),))


class OnDevice(torch.utils.data.Dataset):
    """A dataset that makes its examples on a simulated GPU."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.ones(2, device="sim:0")


@pytest.mark.process
@pytest.mark.parametrize("data", ["made", "kept", "sent"])
def test_workers_of_a_data_loader(devices, data):
    x = torch.arange(4.0, device=devices[0])
    dataset = {"made": OnDevice(), "kept": TensorDataset(x), "sent": list(x)}[data]
    collate = (lambda batch: batch) if data == "sent" else None
    loader = DataLoader(dataset, 2, num_workers=1, multiprocessing_context="fork",
                        collate_fn=collate, timeout=60)  # fmt: skip
    message = r"DataLoader('s workers: return| read must return) host"
    with pytest.raises(RuntimeError, match=message):
        next(iter(loader))


@pytest.mark.process
def test_workers_with_host_tensors_work(devices):
    dataset = TensorDataset(torch.arange(4.0))
    loader = DataLoader(dataset, 2, num_workers=1, multiprocessing_context="fork")
    assert [batch.to(devices[1]).tolist() for (batch,) in loader] == [[0, 1], [2, 3]]


def test_processes_that_are_started_afresh(devices):
    x = torch.ones(2, device=devices[0])
    process = multiprocessing.get_context("spawn").Process(target=print, args=(x,))
    with pytest.raises(NotImplementedError, match=r"sim:0 cannot be sent.*tensor\.cpu\(\)"):
        process.start()


def in_a_fork(function):
    """Return what `function` says in a forked process; fail if it does not come back."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def tell():
        try:
            queue.put(function())
        except RuntimeError as error:
            queue.put(str(error))

    process = context.Process(target=tell, daemon=True)
    process.start()
    answer = queue.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    return answer


@pytest.mark.process
def test_forked_processes_have_no_gpus_until_they_configure_some(devices):
    x = torch.ones(2, device=devices[0])
    for use in (
        lambda: (x + 1).tolist(),
        lambda: x.cpu().tolist(),
        lambda: torch.ones(2, device="sim:0").tolist(),
        lambda: sim.now(),
    ):
        assert "forked" in in_a_fork(use)
        assert "configure(k) here" in in_a_fork(use)
    assert in_a_fork(lambda: (torch.manual_seed(0) and torch.ones(2) + 1).tolist()) == [2, 2]
    assert in_a_fork(lambda: torch.ones(2, device=sim.configure(1)[0]).tolist()) == [1, 1]
    assert (x + 1).tolist() == [2, 2]  # here, nothing has changed


@pytest.mark.process
def test_a_fork_need_not_wait_for_a_thread_that_it_does_not_have(devices):
    kept = [torch.ones(2, device=devices[0])]
    lock = kept[0]._device.machine.lock
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(100)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_a_fork(lambda: kept.clear() or len(kept)) == 0  # frees its memory
    finally:
        done.set()
        thread.join()


def test_the_accelerator_synchronizes(devices):
    if torch.accelerator.current_accelerator() != torch.device("sim"):
        pytest.skip("needs a process without a GPU of its own")
    for synchronize in (
        torch.accelerator.synchronize,
        lambda: torch.accelerator.synchronize(devices[0]),
        lambda: torch.accelerator.synchronize(0),
    ):
        x = torch.ones(500, 500, device=devices[0])
        x @ x
        end = max(span.end for span in sim.trace())
        assert sim.now() < end
        synchronize()
        assert sim.now() == end
