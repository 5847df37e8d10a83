"""Calibrate a GPU, predict real programs with the result, and measure how far off that is.

On a machine with a GPU, about three minutes:

    python benchmarks/calibrate.py --out records/calibration-NAME.json

On any machine, what the simulator predicts for a preset or for such a file:

    python benchmarks/calibrate.py --predict v100 --link pcie3
    python benchmarks/calibrate.py --predict records/calibration-NAME.json
"""

import argparse
import statistics
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.nn import functional as F

from d2lmini import empty_pinned, get_params, init_params, now, sim, synchronize, train_batch
from d2lmini.resnet import resnet18
from d2lmini.sim import GPU, GPUS
from d2lmini.sim.calibration import calibrate, from_calibration

# None of these was used for the calibration: other sizes of products and copies, whole programs.
PRODUCTS = [("float32", n) for n in (512, 1000, 1500, 3000, 6000)]
PRODUCTS += [("tf32", 3000), ("bfloat16", 3000), ("float16", 3000)]
COPIES = [10**6, 16 * 10**6, 100 * 10**6]  # bytes
LENET, RESNET = (256, 1024), (64, 256)  # batch sizes


def product(device, dtype, n):
    """Multiply two n x n matrices."""
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a = torch.randn(n, n).to(device).to(kind)
    return lambda: torch.mm(a, a)


def copy(device, nbytes, pinned, to_host):
    """Copy between the host's memory, pinned or not, and the device."""
    on_device = torch.zeros(nbytes // 4, device=device)
    if pinned:
        host = empty_pinned(nbytes // 4, device=device)
        pair = (host, on_device) if to_host else (on_device, host)
        return lambda: pair[0].copy_(pair[1], non_blocking=True)
    if to_host:
        return on_device.cpu
    host = torch.zeros(nbytes // 4)
    return lambda: on_device.copy_(host)


def lenet_step(device, batch):
    """Make one update of the from-scratch chapter's LeNet, the batch coming from the host."""
    X, y = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    params = [get_params(init_params(), device)]
    return lambda: train_batch(X, y, params, [device], lr=0.01)


def resnet_step(device, batch):
    """Make one update of the concise chapter's ResNet-18, the batch being there already."""
    net = resnet18().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    X, y = torch.randn(batch, 1, 28, 28).to(device), torch.randint(10, (batch,)).to(device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()

    return step


def workloads():
    """Return ``{name: make}``; ``make(device)`` prepares the work and returns it as a function."""
    found = {}
    for dtype, n in PRODUCTS:
        found[f"product {dtype} {n}"] = lambda d, dtype=dtype, n=n: product(d, dtype, n)
    for nbytes in COPIES:
        for pinned in (True, False):
            for to_host in (True, False):
                name = f"copy {nbytes / 1e6:.0f} MB {'pinned' if pinned else 'pageable'} "
                name += "to host" if to_host else "to device"
                found[name] = lambda d, a=(nbytes, pinned, to_host): copy(d, *a)
    for batch in LENET:
        found[f"LeNet step, batch {batch}"] = lambda d, batch=batch: lenet_step(d, batch)
    for batch in RESNET:
        found[f"ResNet-18 step, batch {batch}"] = lambda d, batch=batch: resnet_step(d, batch)
    return found


@contextmanager
def precision(name):
    """Let float32 products use TF32 where the workload's name says so."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if "tf32" in name else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def seconds(work, device, steps):
    """Return the time of one `work()`: `steps` of them in a row, one wait at the end."""
    synchronize(device)
    start = now(device)
    for _ in range(steps):
        work()
    synchronize(device)
    return (now(device) - start) / steps


def predict(gpu, link, names=None):
    """Return ``{workload: seconds}`` as the simulator has it; nothing is computed but shapes."""
    times = {}
    for name, make in workloads().items():
        if names is None or name in names:
            (device,) = sim.configure(1, gpu=gpu, link=link, numerics=False)
            with precision(name):
                work = make(device)
                work()
                times[name] = seconds(work, device, steps=5)
    return times


def measure(device, repeats):
    """Return ``{workload: [seconds, ...]}`` on a real GPU, after a warm-up."""
    times = {}
    for name, make in workloads().items():
        with precision(name):
            work = make(device)
            for _ in range(5):
                work()
            steps = min(max(int(0.1 / max(seconds(work, device, 3), 1e-6)), 5), 200)
            times[name] = [seconds(work, device, steps) for _ in range(repeats)]
        print(f"  {name}", file=sys.stderr)
        del work
        torch.cuda.empty_cache()
    return times


def compare(predicted, measured):
    """Return the rows of the table, and the median error over all of them.

    The error of a row is ``|predicted - measured| / measured``, with the median measurement.
    """
    rows = []
    for name, samples in measured.items():
        middle = statistics.median(samples)
        rows.append(
            {
                "workload": name,
                "predicted": predicted[name],
                "measured": middle,
                "low": min(samples),
                "high": max(samples),
                "error": abs(predicted[name] - middle) / middle,
            }
        )
    return rows, statistics.median(row["error"] for row in rows)


def table(rows):
    """Lay the rows out as text, times in milliseconds."""
    lines = [f"{'workload':34}{'predicted ms':>14}{'measured ms':>14}{'error':>8}"]
    for row in rows:
        times = f"{1e3 * row['predicted']:14.4f}{1e3 * row['measured']:14.4f}"
        lines.append(f"{row['workload']:34}{times}{row['error']:8.1%}")
    return "\n".join(lines)


def hardware(name, link):
    """Return GPU and link: of a preset's name, or of a calibration's file."""
    if name in GPUS:
        return GPUS[name], link or "pcie3"
    if not Path(name).exists():
        raise ValueError(f"{name!r} is neither a file nor one of {', '.join(GPUS)}")
    gpu, measured_link = from_calibration(name)
    return gpu, link or measured_link


def show_prediction(gpu, link):
    label = gpu.name if isinstance(gpu, GPU) else gpu
    print(f"{label}: predicted, not measured")
    for name, time in predict(gpu, link).items():
        print(f"{name:34}{1e3 * time:14.4f} ms")


def run(device, out, repeats):
    """Calibrate, predict, measure; write everything to `out` and print the table."""
    out = Path(out)
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} for {out.name}; create it first")
    calibration = calibrate(device, repeats)
    predicted = predict(calibration.gpu, calibration.link)
    rows, median_error = compare(predicted, measure(torch.device(device), repeats))
    calibration.save(out, comparison=rows, median_error=median_error)
    print(
        f"{calibration.gpu.name}\n{table(rows)}\nmedian error {median_error:.1%}, written to {out}"
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="file to write, records/calibration-NAME.json")
    parser.add_argument("--device", default="cuda:0", help="GPU to calibrate (default cuda:0)")
    parser.add_argument("--repeats", type=int, default=7, help="of every measurement (default 7)")
    parser.add_argument("--predict", metavar="GPU", help="preset or file; measures nothing")
    parser.add_argument("--link", help="preset of a link, with --predict")
    options = parser.parse_args(arguments)
    if bool(options.out) == bool(options.predict):
        parser.error("give either --out (on a machine with a GPU) or --predict")
    try:
        if options.predict:
            show_prediction(*hardware(options.predict, options.link))
        else:
            run(options.device, options.out, options.repeats)
    except ValueError as error:
        parser.exit(2, f"calibrate: {error}\n")


if __name__ == "__main__":
    main()
