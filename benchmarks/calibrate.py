"""Calibrate a GPU, measure programs on it, predict them, and record how far off that is.

On a machine with a GPU, a few minutes:

    python benchmarks/calibrate.py --out records/calibration-NAME.json
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from d2lmini import empty_pinned, get_params, init_params, now, sim, synchronize, train_batch
from d2lmini.resnet import resnet18
from simgpu.calibration.stopwatch import KINDS, float32_precision, timings
from simgpu.units import quantity


def product(n, dtype, device):
    """Multiply two n x n matrices."""
    a = torch.randn(n, n).to(device).to(KINDS[dtype][0])
    return lambda: torch.mm(a, a)


def copy(nbytes, pinned, to_host, device):
    """Copy between the host's memory, pinned or not, and the device."""
    on_device = torch.zeros(nbytes // 4, device=device)
    if not pinned:
        host = torch.zeros(nbytes // 4)
        return on_device.cpu if to_host else lambda: on_device.copy_(host)
    host = empty_pinned(nbytes // 4, device=device)
    pair = (host, on_device) if to_host else (on_device, host)
    return lambda: pair[0].copy_(pair[1], non_blocking=True)


def lenet_step(batch, device):
    """Make one update of the from-scratch chapter's LeNet, the batch coming from the host."""
    X, y = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    params = [get_params(init_params(), device)]
    return lambda: train_batch(X, y, params, [device], lr=0.01)


def resnet_step(batch, device):
    """Make one update of the concise chapter's ResNet-18, the batch being there already."""
    net = resnet18().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    X, y = torch.randn(batch, 1, 28, 28).to(device), torch.randint(10, (batch,)).to(device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()

    return step


# Other sizes than those of the calibration, and whole programs. Each is made for a device.
WORKLOADS = {
    **{f"product float32 {n}": partial(product, n, "float32") for n in (512, 1000, 3000, 6000)},
    **{f"product {t} 3000": partial(product, 3000, t) for t in ("tf32", "bfloat16", "float16")},
    **{
        f"copy {mb} MB {'pinned' if pinned else 'pageable'} {'to host' if down else 'to device'}":
            partial(copy, mb * 10**6, pinned, down)
        for mb in (1, 16, 100) for pinned in (True, False) for down in (True, False)
    },
    **{f"LeNet step, batch {b}": partial(lenet_step, b) for b in (256, 1024)},
    **{f"ResNet-18 step, batch {b}": partial(resnet_step, b) for b in (64, 256)},
}  # fmt: skip


def measure(workload, device, repeats):
    """Return `repeats` times of a workload on a real or simulated GPU, in seconds."""

    def clock():
        synchronize(device)
        return now(device)

    with float32_precision("high" if "tf32" in workload else "highest"):
        return timings(WORKLOADS[workload](device), clock, repeats)


def predict(workload, gpu, link):
    """Return the time of a workload as the simulator has it; only shapes are computed."""
    (device,) = sim.configure(1, gpu=gpu, link=link, numerics=False)
    return measure(workload, device, repeats=1)[0]


def compare(measured, gpu, link):
    """Predict what was measured, ``{workload: [seconds, ...]}``, and print how far off that is.

    The error is ``|predicted - measured| / measured``, with the median measurement.
    """
    rows, errors = [], []
    print(f"{gpu.name}: predicted, measured, error")
    for name, seconds in measured.items():
        middle, guess = statistics.median(seconds), predict(name, gpu, link)
        errors.append(abs(guess - middle) / middle)
        print(f"{name:34}{quantity(guess, 's'):>10}{quantity(middle, 's'):>10}{errors[-1]:8.1%}")
        rows.append({"workload": name, "predicted": guess, "seconds": seconds})
    print(f"median error {statistics.median(errors):.1%}")
    return rows


def main(arguments=None):
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="records/calibration-NAME.json")
    parser.add_argument("--device", default="cuda:0", help="GPU to calibrate (default cuda:0)")
    options = parser.parse_args(arguments)
    if not options.out.parent.is_dir():
        parser.error(f"there is no folder {options.out.parent}; create it first")
    try:
        calibration = sim.calibrate(options.device)
    except ValueError as error:
        parser.error(str(error))
    # All measuring comes first, while there are only real GPUs in the process.
    measured = {name: measure(name, torch.device(options.device), 7) for name in WORKLOADS}
    rows = compare(measured, calibration.gpu, calibration.link)
    calibration.save(options.out, comparison=rows)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
