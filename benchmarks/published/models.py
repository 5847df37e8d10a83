"""The models that published jobs train, by the names that tables give them."""

from benchmarks.published.jobs.job import Model
from benchmarks.published.rows import UnpredictableError

# MosaicML's MPT: hidden, heads, layers. Flash attention, learned positions, no biases.
MPT = {
    "125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
    "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48),
    "70b": (8192, 64, 80),
}  # fmt: skip
MPT_VOCABULARY = 50_368
# Meta's Llama 2 and 3: hidden, heads, layers, heads of keys, width, vocabulary.
LLAMA = {
    "llama2 7b": (4096, 32, 32, 32, 11_008, 32_000),
    "llama2 13b": (5120, 40, 40, 40, 13_824, 32_000),
    "llama2 34b": (8192, 64, 48, 8, 22_016, 32_000),
    "llama2 70b": (8192, 64, 80, 8, 28_672, 32_000),
    "llama3 8b": (4096, 32, 32, 8, 14_336, 128_256),
    "llama3 70b": (8192, 64, 80, 8, 28_672, 128_256),
    "llama3 405b": (16_384, 128, 126, 8, 53_248, 128_256),
}


def find_mpt(name, seq):
    """Return the MPT of that size; raise `UnpredictableError` if there is none."""
    hidden, heads, layers = _find(MPT, name)
    return Model(hidden, heads, layers, seq, MPT_VOCABULARY)


def find_llama(name, seq):
    """Return the Llama of that name; raise `UnpredictableError` if there is none."""
    hidden, heads, layers, keys, inner, vocabulary = _find(LLAMA, name)
    return Model(hidden, heads, layers, seq, vocabulary, keys, inner, gated=True, tied=False)


def _find(models, name):
    key = name.lower().strip()
    if key not in models:
        raise UnpredictableError(f"no model is called {name!r}; known are {', '.join(models)}")
    return models[key]
