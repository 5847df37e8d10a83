"""Work of the host itself, while the devices go on."""

import pytest
import torch
from support.programs.clock_programs import elapsed, overlap, settle, spans, square

import simgpu as sim


def test_host_ops_keep_the_host_busy_while_a_device_works():
    (device,) = sim.configure(1, numerics=False)
    x, y = square(device), torch.ones(300, 300)
    settle()
    x @ x
    with sim.host_ops("laptop4"):
        y @ y
        y.t()
        torch.ones(10, device=device)
    y @ y  # outside: not charged
    (host,) = spans(engine="cpu")
    assert (host.name, host.flops) == ("mm", 2 * 300**3)
    cpu = sim.CPUS["laptop4"]
    assert host.duration == pytest.approx(cpu.seconds(host.flops, host.bytes, "float32"))
    assert overlap(host, spans(device="sim:0", name="mm")[0]) > 0


def test_host_ops_work_on_shapes_where_the_machine_does():
    (device,) = sim.configure(1, numerics=False)
    with sim.host_ops():
        x = torch.rand(20_000, 20_000)  # 1.6 GB if it were real
        y = (x @ x).relu_()
        y[0] += 1
        y.add_(torch.ones(20_000))
    assert y.shape == (20_000, 20_000)
    assert y.untyped_storage().nbytes() == 4
    assert y[5, 5].isnan()
    assert [s.name for s in spans(engine="cpu")].count("mm") == 1
    assert y.to(device).device == device


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_on_the_host(make, foreach, numerics):
    sim.configure(1, numerics=numerics)
    weight = torch.ones(40, 30, requires_grad=True)
    optimizer = make([weight], lr=0.1, foreach=foreach)
    for step in range(1, 4):
        weight.grad = torch.ones(40, 30)
        with sim.host_ops():
            optimizer.step()
        assert weight.isnan().all() != numerics
        assert all(state["step"] == step for state in optimizer.state.values() if "step" in state)
    times = [span.duration for span in spans(engine="cpu")]
    assert len(times) >= 3 * (1 if make is torch.optim.SGD else 5)


def test_host_ops_on_shapes_compute_scalars_and_integers_but_make_no_values_up():
    sim.configure(1, numerics=False)
    with sim.host_ops():
        assert (torch.tensor(2.0) * 3).item() == 6
        assert torch.arange(3).tolist() == [0, 1, 2]
        with torch.profiler.record_function("marked"):
            total = (torch.ones(3) * 2).sum()
        with pytest.raises(RuntimeError, match="numerics=True"):
            total.item()


def test_copies_of_fifty_large_results_need_no_memory_on_shapes_alone():
    (device,) = sim.configure(1, numerics=False)
    x = torch.rand(4000, 4000, device=device)
    results = [x @ x for _ in range(50)]
    blocking = elapsed(lambda: [y.cpu() for y in results])
    copies = []
    free = elapsed(lambda: copies.extend(y.to("cpu", non_blocking=True) for y in results))
    assert free < blocking
    assert all(c.untyped_storage().nbytes() == 4 for c in copies)
