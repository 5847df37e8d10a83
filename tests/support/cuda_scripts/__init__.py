"""Scripts in CUDA's spelling, as people write them, and how they become scripts for the CPU."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
_ON_CPU = (
    (r"\bself\.local_rank = int\(.*\)", 'self.local_rank = "cpu"'),
    (r"device_ids=\[[\w.]*\]", "device_ids=None"),
    (r', device_id=torch\.device\("cuda".*\)\)', ")"),
    (r".*torch\.cuda\.set_device.*\n", "\n"),
    (r'f"cuda:\{[\w.]*\}"', '"cpu"'),
    (r"\.cuda\(\)", ""),
    (r"cpu:gloo,cuda:nccl", "gloo"),
    (r'"nccl"', '"gloo"'),
    (r'(?<=[ (=])(?<!== )"cuda"(?! (if|in))', '"cpu"'),
    (r"ReduceOp\.AVG\)", "ReduceOp.SUM)\n            total /= torch.distributed.get_world_size()"),
    (r"compile = True", "compile = False"),
    (r"pin_memory=True", "pin_memory=False"),
)


def path(name) -> Path:
    """Return the path of a script."""
    return FOLDER / f"{name}.py"


def on_cpu(name) -> str:
    """Return the source of a script with all that is CUDA's replaced, for gloo on the CPU."""
    source = path(name).read_text(encoding="utf-8")
    for pattern, text in _ON_CPU:
        source = re.sub(pattern, text, source)
    return source
