"""What products of 8-bit numbers gain: ``python -m benchmarks.published.study.eight_bits``.

It simulates compiled steps with products of 16 and of 8 bits by `simgpu.plan`, in about a minute,
and writes what 8 bits gain to the record.
"""

import json
from pathlib import Path

from simgpu.plan.interface import plan
from simgpu.plan.presets import PRESETS

PATH = Path(__file__).parents[3] / "records" / "published" / "eight_bits.json"
MACHINE = {"gpus": 8, "gpu": "h100", "compiled": True}
# pytorch/ao 36027d82d, docs/source/workflows/training.md: tokens/s of each of 8 H100s, Llama 3 8B
# with FSDP2, compiled, recomputation by operation, batch 1, sequences of 8,192. 16 bits; 8 bits
# with one scale for a tensor, as here; with one for each row.
TOKENS_16, TOKENS_TENSOR, TOKENS_ROW = 6150, 7689.5, 6768
PUBLISHED = "llama3-8b", {"recompute": "selective"}
MODELS_BY_WIDTH = "gpt3-125m", "gpt3-350m", "gpt3-760m", "gpt3-1.3b", "gpt3-2.7b", "gpt3-6.7b"
SEQUENCES = 1, 4  # of a GPU, at once


def gain(model, **options) -> float:
    """Return how many times as fast a step is with products of 8 bits."""
    sixteen, eight = (
        plan(model, **MACHINE, **options, dtype=dtype).step_time_seconds
        for dtype in ("bfloat16", "float8")
    )
    return sixteen / eight


def study() -> dict:
    """Return the gain of the published step, and that of models by width and number of tokens."""
    model, options = PUBLISHED
    return {
        "published": gain(model, **options),
        "by_width": [
            {
                "width": PRESETS[name].hidden,
                "tokens": count * PRESETS[name].seq,
                "gain": gain(name, micro_batch=count),
            }
            for name in MODELS_BY_WIDTH
            for count in SEQUENCES
        ],
    }


def read(path=PATH) -> dict:
    """Return what `study` has found."""
    return json.loads(path.read_text(encoding="utf-8"))


def main():
    """Write the record."""
    PATH.write_text(json.dumps(study(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
