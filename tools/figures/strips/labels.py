"""What readers are shown of what they may choose, where that are words."""

from tools.words import say

LABELS = {
    "ring": say("ring"),
    "tree": say("tree"),
    "two servers of two": say("two servers of two"),
    "tensor parallelism": say("tensor parallelism"),
    "with sequence parallelism": say("with sequence parallelism"),
    "interleaved, v = 2": say("interleaved, v = 2"),
    "interleaved, v = 4": say("interleaved, v = 4"),
    "zero bubble": say("zero bubble"),
    "neighbouring chunks": say("neighbouring chunks"),
    "zigzag": say("zigzag"),
    "8 replicas": say("8 replicas"),
    "4 replicas x 2 tensor": say("4 replicas x 2 tensor"),
    "2 stages x 2 shards x 2 tensor": say("2 stages x 2 shards x 2 tensor"),
    "2 shards x 4 contexts": say("2 shards x 4 contexts"),
    "experts: 2 replicas x 4 of experts": say("experts: 2 replicas x 4 of experts"),
}


def label(value):
    """Return what stands for a value in a list of choices."""
    return LABELS.get(value, value)
