"""Checkpoints by `async_save`: what they hold is what the model was when it was called."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from support.programs.rank_models import batches, largest_difference, seeded
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.fsdp import fully_shard

import simgpu as sim


def pinned_and_in_a_process():
    """Return the options of a stager with a thread and pinned memory, and a writer of its own."""
    return {
        "async_checkpointer_type": AsyncCheckpointerType.PROCESS,
        "async_stager": DefaultStager(StagingOptions(True, True, True, True)),
    }


def trained(model, steps=2):
    device = torch.accelerator.current_accelerator()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, y in batches(steps):
        F.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def on_host(states):
    """Return copies, as the model will change while the checkpoint is written."""
    return {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).cpu().clone()
        for name, value in states.items()
    }


@pytest.mark.parametrize("options", [dict, pinned_and_in_a_process])
@pytest.mark.parametrize("wrap", [nn.parallel.DistributedDataParallel, fully_shard])
def test_the_file_holds_what_the_model_was(wrap, options, tmp_path):
    def program(rank):
        dist.init_process_group()
        model = wrap(seeded().to(torch.accelerator.current_accelerator()))
        optimizer = trained(model)
        model_state, optimizer_state = get_state_dict(model, optimizer)
        then = on_host(model_state)
        states = {"model": model_state, "optimizer": optimizer_state}
        saving = dcp.async_save(states, checkpoint_id=tmp_path, **options())
        trained(model)
        getattr(saving, "upload_completion", saving).result()
        now = get_state_dict(model, optimizer)[0]
        moved = largest_difference(on_host(now), then)
        dcp.load({"model": now}, checkpoint_id=tmp_path)
        return moved, largest_difference(on_host(now), then)

    for moved, differs in sim.spawn(program, nprocs=2):
        assert moved > 1e-3
        assert differs == 0


def test_without_values_it_takes_as_long_and_its_files_are_small(tmp_path):
    def program(rank, place):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = nn.Sequential(*(nn.Linear(500, 500) for _ in range(3))).to(device)
        fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 500, device=device)).sum().backward()
        optimizer.step()
        parts = get_state_dict(model, optimizer)
        states = dict(zip("mo", parts, strict=True))
        start = sim.now()
        dcp.async_save(states, checkpoint_id=place).result()
        seconds = sim.now() - start
        dcp.load(states, checkpoint_id=place)
        return seconds

    found = []
    for numerics in (True, False):
        place = tmp_path / str(numerics)
        (seconds, _) = sim.spawn(program, (place,), nprocs=2, numerics=numerics)
        found.append((seconds, sum(file.stat().st_size for file in place.iterdir())))
    (with_values, large), (without, small) = found
    assert large > 9e6 > 10 * small
    assert without == pytest.approx(with_values, rel=0.1)  # the writer copies once more


def test_staging_takes_the_time_of_the_copies(tmp_path):
    def program(rank):
        dist.init_process_group()
        weight = torch.ones(1000, 1000, device=torch.accelerator.current_accelerator())
        before = len(sim.trace())
        start = sim.now()
        dcp.async_save({"w": weight, "step": torch.ones(())}, checkpoint_id=tmp_path).result()
        copies = [s for s in sim.trace()[before:] if s.engine == "d2h"]
        return sum(
            s.bytes for s in copies if s.device.startswith(f"rank {rank} ")
        ), sim.now() - start

    for copied, seconds in sim.spawn(program, nprocs=2, link="pcie4"):
        assert copied == 4_000_000
        assert seconds > 4_000_000 / sim.find_link("pcie4").bandwidth


def test_what_cannot_be_written_is_said_where_the_result_is_asked_for(tmp_path):
    (tmp_path / "file").write_text("")

    def program(rank):
        dist.init_process_group()
        x = torch.ones(2, device=torch.accelerator.current_accelerator())
        saving = dcp.async_save({"x": x}, checkpoint_id=tmp_path / "file")
        with pytest.raises(dcp.api.CheckpointException):
            saving.result()

    sim.spawn(program, nprocs=2)


@pytest.mark.parametrize(("backend", "accepted"), [("cpu:gloo,cuda:nccl", True), ("nccl", False)])
def test_the_writer_needs_a_backend_of_the_cpu_as_on_real_gpus(
    backend, accepted, simgpu_run, tmp_path
):
    code, _, err = simgpu_run(
        "import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp\n"
        f"dist.init_process_group({backend!r})\n"
        "states = {'x': torch.ones(2, device='cuda')}\n"
        f"dcp.async_save(states, checkpoint_id={str(tmp_path / 'saved')!r}).result()\n"
    )
    assert (code == 0) == accepted, err
    assert ("A CPU backend must be enabled for async save" in err) != accepted
