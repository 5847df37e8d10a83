"""Kinds of operations, and how their boxes look.

Kinds differ in colour (visible on white and on black) and in hatching.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

from simgpu.units import BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, SKY, VERMILION, YELLOW


@dataclass(frozen=True)
class Look:
    """How a kind is drawn: fill colour, colour of text on it, hatching."""

    fill: str
    ink: str
    hatch: str


# Kinds with the same look in every figure.
_FIXED = {
    "matrix product": Look(BLUE, "#fff", "none"),
    "convolution": Look(ORANGE, "#000", "none"),
    "element by element": Look(SKY, "#000", "rising"),
    "reduce, pool, normalise": Look(GREEN, "#000", "level"),
    "copy to device": Look(PURPLE, "#000", "falling"),
    "copy to host": Look(VERMILION, "#000", "rising"),
    "copy between GPUs": Look(YELLOW, "#000", "crossed"),
    "collective": Look(YELLOW, "#000", "upright"),
    "launch": Look(GREY, "#000", "none"),
    "wait": Look(PALE, "#000", "dotted"),
    "load data": Look(PALE, "#000", "rising"),
}
# Every other operation is its own kind, as long as looks are left.
_SPARE = (
    Look(GREEN, "#000", "none"),
    Look(PURPLE, "#000", "upright"),
    Look(ORANGE, "#000", "crossed"),
    Look(SKY, "#000", "dotted"),
    Look(VERMILION, "#000", "level"),
)
OTHER = "other"
_LONGEST = 40  # characters of an operation's name that becomes a kind
_OTHER_LOOK = Look(GREY, "#000", "crossed")

_BY_ENGINE = {
    "h2d": "copy to device",
    "d2h": "copy to host",
    "p2p": "copy between GPUs",
    "copy": "copy",
    "comm": "collective",
    "launch": "launch",
    "sync": "wait",
    "loader": "load data",
}
_PATTERNS = (
    # A fused kernel's name lists its operations; Inductor's prefix says of which kind it is.
    ("element by element", r"^triton_poi_"),
    ("reduce, pool, normalise", r"^triton_(red|per)_"),
    ("copy within a GPU", r"^memcpy"),
    ("fill", r"^memset"),
    ("pad", r"^constant_pad|^(slice|select)_backward"),
    ("embedding", r"^embedding"),
    ("cut or join", r"^_?chunk_cat|^split_with_sizes"),
    ("collective", r"nccl|all_?reduce|all_?gather|reduce_?scatter|broadcast_"),
    ("convolution", r"conv|winograd|fprop|dgrad|wgrad"),
    ("matrix product", r"(^|_)(add)?(mm|bmm|mv|matmul|linear)(_|$|backward)|gemm|gemv|attention"),
    (
        "reduce, pool, normalise",
        r"pool|norm|softmax|reduce|nll|entropy|loss|^_?(sum|mean|amax|max|min|argmax|var|std)",
    ),
    (
        "element by element",
        r"elementwise|^_?foreach|^_?fused|^(r?sub|add|mul|div|neg|abs|exp|log|sqrt|rsqrt|pow|relu|"
        r"gelu|silu|tanh|sigmoid|threshold|clamp\w*|where|fill|zero|zeros|ones|copy|clone|to|cast|lerp|"
        r"addcmul|addcdiv|dropout|native_dropout|bernoulli|random|uniform|normal|eq|ne|lt|gt|le|ge|"
        r"masked_fill|full|\w+_like|_to_copy)(_backward|backward\d*)?_?$",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)


def short_name(name: str) -> str:
    """Return the part of a profiler's name that identifies the operation.

    Examples
    --------
    >>> short_name("aten::addmm")
    'addmm'
    >>> short_name("void at::native::vectorized_elementwise_kernel<4, Add>(int, Add)")
    'vectorized_elementwise_kernel'
    >>> short_name("copy sim:0 -> cpu")
    'copy sim:0 -> cpu'
    """
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    if "::" not in name and "<" not in name:
        return name
    name = name.removeprefix("void ").replace("(anonymous namespace)", "")
    return re.split(r"[<(]", name, maxsplit=1)[0].rsplit("::", 1)[-1] or name


def kind_of(span) -> str:
    """Return the kind of a span; an operation of no known kind is its own kind."""
    return _BY_ENGINE.get(span.engine) or _kind_of_name(span.name)


@lru_cache(maxsize=4096)
def _kind_of_name(name):
    name = short_name(name)
    own = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return next((kind for kind, pattern in _COMPILED if pattern.search(name)), own)


def looks_of(spans) -> dict:
    """Return the look of every kind of the spans, ``{kind: Look}``, longest total time first.

    If there are too few looks, the kinds with the least time get none; draw them as `OTHER`.
    """
    seconds = defaultdict(float)
    for span in spans:
        seconds[kind_of(span)] += span.duration
    ranked = sorted(seconds, key=lambda kind: (-seconds[kind], kind))
    spare = iter(_SPARE)
    looks = {}
    for kind in ranked:
        look = _FIXED.get(kind) or next(spare, None)
        if look:
            looks[kind] = look
    if len(looks) < len(ranked):
        looks[OTHER] = _OTHER_LOOK
    return looks
