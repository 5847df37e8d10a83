"""Which device and backend a job takes, on machines that are not here."""

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from d2lmini import ddp
from d2lmini.ddp import choice, group, place
from d2lmini.ddp.choice import Offer


@pytest.fixture
def visible(monkeypatch):
    """Return a function that sets the GPUs which the next process sees, by their UUIDs."""

    def set_gpus(*uuids, problem=None, has_nccl=True):
        monkeypatch.setattr(choice, "usable_gpus", lambda: (len(uuids), problem))
        properties = [SimpleNamespace(uuid=uuid) for uuid in uuids]
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: properties[i])
        monkeypatch.setattr(dist, "is_nccl_available", lambda: has_nccl)

    return set_gpus


def agree(offers):
    """Let ranks with these offers meet; return what each of them chooses."""
    store, size = dist.HashStore(), len(offers)
    with ThreadPoolExecutor(size) as ranks:
        heard = [ranks.submit(choice.exchange, o, store, r, size) for r, o in enumerate(offers)]
        return [ddp.choose_backend(future.result(30)) for future in heard]


def choose(offers):
    """Return the choice, which is that of all ranks."""
    first, *others = agree(offers)
    assert all(other == first for other in others)
    return first


def test_each_process_takes_the_gpu_of_its_number(visible):
    visible("GPU-a", "GPU-b", "GPU-c")
    offers = [choice.make_offer("auto", local_rank) for local_rank in range(2)]
    assert [offer.index for offer in offers] == [0, 1]
    assert choose(offers) == ("nccl", "cuda", "2 processes and 2 GPUs: each has its own")


def test_processes_that_see_only_their_own_gpu_take_it(visible):
    """As under Slurm with one GPU a task: number 0 of each is another one."""
    offers = []
    for local_rank, uuid in enumerate(["GPU-a", "GPU-b"]):
        visible(uuid)
        offers.append(choice.make_offer("auto", local_rank))
    assert [offer.index for offer in offers] == [0, 0]
    assert choose(offers)[:2] == ("nccl", "cuda")


def test_two_groups_of_processes_share_out_their_own_gpus(visible):
    offers = []
    for local_rank, uuids in enumerate(["ab", "ab", "cd", "cd"]):
        visible(*uuids)
        offers.append(choice.make_offer("auto", local_rank))
    assert [offer.gpu for offer in offers] == ["a", "b", "c", "d"]
    assert choose(offers)[:2] == ("nccl", "cuda")


def test_processes_that_share_a_gpu_do_not_take_it(visible):
    visible("GPU-a")
    offers = [choice.make_offer("auto", local_rank) for local_rank in range(2)]
    expected = ("gloo", "cpu", "2 processes but 1 GPU: NCCL needs one GPU per process")
    assert choose(offers) == expected


def test_all_machines_choose_the_same(visible):
    visible("GPU-a", "GPU-b")
    offers = [choice.make_offer("auto", local_rank) for local_rank in range(2)]
    visible()
    offers += [choice.make_offer("auto", local_rank) for local_rank in range(2)]
    assert choose(offers)[:2] == ("gloo", "cpu")
    assert "4 processes but 2 GPUs" in choose(offers)[2]


def test_without_nccl_the_cpu_computes(visible):
    visible("GPU-a", has_nccl=False)
    expected = ("gloo", "cpu", "this PyTorch was built without NCCL, which connects GPUs")
    assert choose([choice.make_offer("auto", 0)]) == expected
    with pytest.raises(ValueError, match=r"without NCCL.*; on Windows use WSL, or take the dev"):
        choose([choice.make_offer("cuda", 0)])


def test_gpus_that_cannot_be_used_are_the_reason(visible):
    visible(problem="PyTorch cannot use a GPU here: the driver is too old")
    assert choose([choice.make_offer("auto", 0)])[2].endswith("the driver is too old")
    with pytest.raises(ValueError, match="the driver is too old; or take the device 'cpu'"):
        choose([choice.make_offer("cuda", 0)])


def test_a_gpu_without_kernels_does_not_hinder_those_that_need_it_not(visible):
    visible("GPU-a", problem="cannot use cuda:1")
    one, two = (choice.make_offer("auto", local_rank) for local_rank in range(2))
    assert choose([one])[0] == "nccl"
    assert choose([one, two]) == ("gloo", "cpu", "cannot use cuda:1")


def test_no_gpu_is_no_more_than_that(visible):
    visible()
    assert choose([choice.make_offer("auto", 0)]) == ("gloo", "cpu", "this machine has no GPU")
    with pytest.raises(ValueError, match="has no GPU; take the device 'cpu'"):
        choose([choice.make_offer("cuda", 0)])


def test_too_few_gpus_are_an_error_if_asked_for():
    offers = [Offer("cuda", 0, "GPU-a")] * 2
    with pytest.raises(ValueError, match=r"but 1 GPU.*; lower --nproc-per-node or take"):
        choose(offers)


def test_a_wish_for_the_cpu_is_not_discussed(monkeypatch):
    monkeypatch.setattr(choice, "usable_gpus", lambda: pytest.fail("looked for GPUs"))
    offers = [choice.make_offer("cpu", 0), Offer("auto", 1, "GPU-b")]
    assert choose(offers) == ("gloo", "cpu", "the CPU was asked for")


def test_an_unknown_wish_is_an_error():
    with pytest.raises(ValueError, match="device is 'gpu'; choose 'auto', 'cuda' or 'cpu'"):
        ddp.process_group("gpu").__enter__()


def test_rank_0_leaves_when_all_have_read():
    """It may hold the store, and end with an error at once."""
    store, offer = dist.HashStore(), Offer("auto")
    with ThreadPoolExecutor(1) as ranks:
        rank_0 = ranks.submit(choice.exchange, offer, store, 0, 2)
        store.set("offer/1", store.get("offer/0"))
        with pytest.raises(TimeoutError):
            rank_0.result(0.3)
        store.set("heard/1", "")
        assert rank_0.result(30) == [offer, offer]


@pytest.mark.parametrize("failing", ["set_device", "empty"])
def test_a_gpu_that_another_process_holds_is_named(failing):
    """With the compute mode EXCLUSIVE_PROCESS, to which a notebook's kernel is enough."""
    busy = RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable")
    calls = {"set_device": mock.patch("torch.cuda.set_device"), "empty": mock.patch("torch.empty")}
    with calls["set_device"] as set_device, calls["empty"] as empty:
        {"set_device": set_device, "empty": empty}[failing].side_effect = busy
        with pytest.raises(RuntimeError, match=r"cuda:1 serves one process.*EXCLUSIVE_PROCESS"):
            group._select_gpu(torch.device("cuda:1"))


def test_other_errors_of_a_gpu_stay_what_they_are():
    with (
        mock.patch("torch.cuda.set_device", side_effect=RuntimeError("out of memory")),
        pytest.raises(RuntimeError, match=r"^out of memory$"),
    ):
        group._select_gpu(torch.device("cuda:0"))


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"])
def test_processes_of_another_launcher_do_not_work_alone(name):
    with pytest.raises(ValueError, match=rf"one of 4 processes \({name}\).*let srun or mpirun"):
        place.find_place({name: "4", "SLURM_PROCID": "1", "MASTER_ADDR": "first"})


def test_one_task_is_a_job_of_one():
    assert place.find_place({"SLURM_STEP_NUM_TASKS": "1"}) == place.Place()
    assert place.find_place({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}) == place.Place()  # sbatch


def test_variables_that_srun_is_told_to_set_are_enough():
    names = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "MASTER_ADDR": "first"}
    environ = {name: str(value) for name, value in names.items()} | {"MASTER_PORT": "29500"}
    expected = place.Place(3, 4, 1, "first", 29500)
    assert place.find_place(environ | {"SLURM_STEP_NUM_TASKS": "4"}) == expected


def test_a_job_of_one_takes_its_gpu(visible, monkeypatch):
    """Everything but the GPU itself: what `process_group` hands to PyTorch."""
    visible("GPU-a")
    for name in place.LAUNCHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    asked = {}
    monkeypatch.setattr(group, "_select_gpu", lambda device: asked.update(taken=device))
    monkeypatch.setattr(dist, "init_process_group", lambda **options: asked.update(options))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr(group, "wait_for_all_ranks", lambda: None)
    with ddp.process_group() as job:
        assert (job.backend, job.device) == ("nccl", torch.device("cuda:0"))
    assert asked["taken"] == asked["device_id"] == torch.device("cuda:0")
    assert asked["backend"] == "nccl"
    assert os.environ.get("RANK") is None
