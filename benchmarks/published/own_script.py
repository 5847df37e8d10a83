"""Published rows of a 1.3B from a user's script, ``tests/simgpu/programs/mpt_fsdp.py``.

``python -m benchmarks.published.own_script`` runs it, folded to one rank, and writes `PATH`, which
the page on trust reads. The script calls `F.scaled_dot_product_attention` and FSDP2, and nothing of
ours.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATH = ROOT / "records" / "published" / "own_script.json"
SCRIPT = ROOT / "tests" / "simgpu" / "programs" / "mpt_fsdp.py"
GPUS = 8


@dataclass(frozen=True)
class Row:
    """A row of llm-foundry's table: 1.3 billion parameters, nothing computed again, 8 GPUs.

    Attributes
    ----------
    gpu, memory : str
        As ``simgpu run`` takes them.
    seq, micro, count : int
        Tokens of a sequence, sequences of a micro-batch, micro-batches of a step.
    rate : float
        Published tokens a second of each GPU.
    pure : bool
        Gradients are summed in 16 bits.
    """

    gpu: str
    memory: str
    seq: int
    micro: int
    count: int
    rate: float
    pure: bool = False


# The first is known by its MFU, 56 % of 312 TFLOP/s, with 6 N + 12 l h s FLOPs a token.
ROWS = (
    Row("a100", "40GB", 2048, 8, 1, 0.56 * 312e12 / (6 * 1.316e9 + 12 * 24 * 2048**2), True),
    Row("a100", "80GB", 512, 56, 4, 23_148),
    Row("a100", "80GB", 2048, 14, 4, 20_513),
    Row("a100", "80GB", 8192, 3, 4, 13_814),
    Row("h100", "80GB", 2048, 14, 1, 45_455),
)  # fmt: skip


def run(row):
    """Return what ``simgpu run --summary json`` says of a row."""
    options = (
        f"--nproc-per-node {GPUS} --gpu {row.gpu} --memory {row.memory} --shapes-only --ranks auto "
        f"--summary json {SCRIPT} --seq {row.seq} --micro-batch {row.micro} "
        f"--accumulation {row.count}"
    )
    command = [sys.executable, "-m", "simgpu", "run", *options.split()]
    command += ["--pure"] if row.pure else []
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return json.loads(out.splitlines()[-1])


def numbers(row, found):
    """Return simulated tokens a second of each GPU, and bytes: reserved, and of the GPU."""
    rate = row.seq * row.micro * row.count / found["step_time_seconds"]
    return [rate, max(found["peak_reserved_bytes"].values()), found["gpu_memory_bytes"]]


def read():
    """Return the recorded `numbers` of each of `ROWS`."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def main():
    """Run all rows, and write their numbers."""
    found = [numbers(row, run(row)) for row in ROWS]
    PATH.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
