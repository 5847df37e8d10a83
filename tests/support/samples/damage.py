"""Files as a failing disk or an interrupted copy leaves them."""

import random


def flips_and_cuts(content, count):
    """Yield damaged versions of some bytes: `count` with one flipped bit, `count` without an end.

    Always the same ones for the same content.
    """
    draw = random.Random(0)
    for _ in range(count):
        flipped = bytearray(content)
        flipped[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        yield bytes(flipped)
        yield content[: draw.randrange(len(content))]
