"""Transformers that plans name: their sizes, with sources.

Layers, widths and heads only: no weights. `SOURCES` says where each family's numbers come from.
"""

from simgpu.plan.step.model import Model

SOURCES = {
    "gpt2": "A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019, table 2",
    "gpt3": "T. Brown et al., Language Models are Few-Shot Learners, 2020, table 2.1; 1.3b with 16 "
    "heads (its 24 do not divide 2048), 13b with hidden size 5120 (its 5140 is no multiple of 40)",
    "llama2": "H. Touvron et al., Llama 2, 2023, table 1; widths from the published configurations",
    "llama3": "A. Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3",
    "mixtral": "A. Jiang et al., Mixtral of Experts, 2024, table 1; 8x22b from its configuration",
    "qwen2": "A. Yang et al., Qwen2 Technical Report, 2024, table 1; vocabulary from the "
    "published configuration",
    "qwen3": "A. Yang et al., Qwen3 Technical Report, 2025, table 2; widths from the published "
    "configurations",
    "mpt": "MosaicML, llm-foundry, scripts/train/yamls/pretrain",
}
# hidden, heads, layers
_GPT2 = {
    "124m": (768, 12, 12), "355m": (1024, 16, 24), "774m": (1280, 20, 36), "1.5b": (1600, 25, 48),
}  # fmt: skip
_GPT3 = {
    "125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 16, 24), "1.3b": (2048, 16, 24),
    "2.7b": (2560, 32, 32), "6.7b": (4096, 32, 32), "13b": (5120, 40, 40), "175b": (12288, 96, 96),
}  # fmt: skip
_MPT = {  # no biases
    "125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
    "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48),
    "70b": (8192, 64, 80),
}  # fmt: skip
# hidden, heads, layers, sequence, vocabulary, heads of keys, width; experts, experts of a token
_GATED = {
    "llama2-7b": (4096, 32, 32, 4096, 32_000, 32, 11_008),
    "llama2-13b": (5120, 40, 40, 4096, 32_000, 40, 13_824),
    "llama2-34b": (8192, 64, 48, 4096, 32_000, 8, 22_016),
    "llama2-70b": (8192, 64, 80, 4096, 32_000, 8, 28_672),
    "llama3-8b": (4096, 32, 32, 8192, 128_256, 8, 14_336),
    "llama3-70b": (8192, 64, 80, 8192, 128_256, 8, 28_672),
    "llama3-405b": (16_384, 128, 126, 8192, 128_256, 8, 53_248),
    "mixtral-8x7b": (4096, 32, 32, 32_768, 32_000, 8, 14_336, 8, 2),
    "mixtral-8x22b": (6144, 48, 56, 65_536, 32_768, 8, 16_384, 8, 2),
}


# hidden, heads, layers, sequence, vocabulary, heads of keys, width of an expert, experts, experts
# of a token; width of what is shared, size of a head
_QWEN = {
    "qwen2-57b-a14b": (3584, 28, 28, 32_768, 151_936, 4, 2560, 64, 8, 20_480),
    "qwen3-30b-a3b": (2048, 32, 48, 40_960, 151_936, 4, 768, 128, 8, 0, 128),
    "qwen3-235b-a22b": (4096, 64, 94, 40_960, 151_936, 4, 1536, 128, 8, 0, 128),
}


def _gpt(sizes, seq, vocabulary, biases):
    hidden, heads, layers = sizes
    return Model(hidden, heads, layers, seq, vocabulary, biases=biases)


def _gated(hidden, heads, layers, seq, vocabulary, keys, inner, experts=0, active=0,
           shared=0, head=None):  # fmt: skip
    return Model(
        hidden, heads, layers, seq, vocabulary, keys, inner, gated=True, tied=False,
        experts=experts, active=active, shared=shared, head=head,
    )  # fmt: skip


PRESETS = {
    **{f"gpt2-{name}": _gpt(sizes, 1024, 50_257, True) for name, sizes in _GPT2.items()},
    **{f"gpt3-{name}": _gpt(sizes, 2048, 50_257, True) for name, sizes in _GPT3.items()},
    **{f"mpt-{name}": _gpt(sizes, 2048, 50_368, False) for name, sizes in _MPT.items()},
    **{name: _gated(*sizes) for name, sizes in (_GATED | _QWEN).items()},
}
