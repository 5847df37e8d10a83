"""The share of the peak that a product on tensor cores reaches, by shape: one rule for all GPUs.

A library cuts the result into tiles and gives each multiprocessor one tile after another (NVIDIA,
*Matrix Multiplication Background User's Guide*, 2023). Four losses multiply:

- *Tile quantisation*: tiles at the edges also compute values outside the result.
- *Wave quantisation*: in the last wave of tiles some multiprocessors have none.
- *Tile size*: a tile of a x b loads ``a + b`` values for every ``a * b`` multiply-adds. Small
  tiles spend more time loading: ``ab / (a + b + TILE_LOSS)``, relative to the largest tile.
- *Depth*: a tile's prologue and epilogue cost as much as `DEPTH_LOSS` steps along k.

The library is assumed to choose the best tile, and the best number of parts to split k into so that
there is enough work (each part has its own prologue and epilogue). Products with a side below
`THIN` use no tiles and have none of these losses: they do little with each value that they load, so
that memory limits them.

The remaining factor, the share that products of the best shape reach, is measured: 86.9 % on an
A100, 80.3 % on an H100, 77.6 % on a B200 (S. Bekman, *Machine Learning Engineering*, bfloat16).
`THIN`, `TILE_LOSS` and `DEPTH_LOSS` are round numbers, assumed, the same for all GPUs and not
fitted. They apply to tensor cores, which are so fast that loading matters. The ordinary cores are
at least eight times slower and lose less, so there the efficiency does not depend on the shape.

Tensor cores load 16 bytes at a time. Rows of an odd number of 16-bit elements begin at odd places,
and are loaded element by element: such products reach `ODD_ROWS` of the rate. It follows from one
published pair: GPT-2 with a vocabulary of 50,257 and of 50,304 on an A100 (S. Raschka, *Improving
LLM training speed*: 73.1 and 64.3 ms a step, of which the output layer's products are to take
7.4 ms). For rows that are even, but no multiple of 16 bytes, no measurement is known: none are
slower here.
"""

import functools
import math

BEST = 0.8  # share of the peak at the best shape, for GPUs without a published measurement
TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
TILE_LOSS = 16
DEPTH_LOSS = 128
SPLITS = (1, 2, 4, 8)
ODD_ROWS = 0.45
THIN = 32  # half a side of the smallest tile


@functools.lru_cache(maxsize=4096)
def matmul_efficiency(m, n, k, batch, multiprocessors, best=BEST):
    """Return the share of the peak that ``batch`` products ``(m, k) @ (k, n)`` reach.

    Parameters
    ----------
    m, n, k : int
        Rows and columns of the result, and the length that is summed over; at least 1.
    batch : int
        Products in one kernel.
    multiprocessors : int
        Number of multiprocessors of the GPU.
    best : float
        Share of the peak at the best shape.

    Returns
    -------
    float
        In (0, `best`].

    Raises
    ------
    ValueError
        If a size is below 1.

    Examples
    --------
    >>> large, odd, thin = (matmul_efficiency(*s, 1, 108) for s in
    ...                     ((8192, 8192, 8192), (8192, 8193, 8192), (8192, 8192, 64)))
    >>> large > odd > thin
    True
    """
    if min(m, n, k, batch) < 1:
        raise ValueError(
            f"{batch} products of {m} x {k} and {k} x {n} have an empty side; give positive sizes"
        )
    if min(m, n, k) < THIN:
        return best
    return best * max(
        _share(m, n, k, batch, multiprocessors, tile, parts)
        for tile in TILES
        for parts in SPLITS
        if parts <= k
    )


@functools.lru_cache(maxsize=4096)
def products_efficiency(products, multiprocessors, best=BEST):
    """Return the share of the peak that several products reach together, run in sequence.

    Parameters
    ----------
    products : tuple of tuple of int
        ``(m, n, k, batch)`` of each, and True behind it if a matrix has rows of an odd number of
        16-bit elements.
    multiprocessors, best
        As for `matmul_efficiency`.
    """
    work = [m * n * k * batch for m, n, k, batch, *_ in products]
    if not any(work):
        return best
    shares = [
        matmul_efficiency(*sizes, multiprocessors, best) * (ODD_ROWS if odd else 1)
        for *sizes, odd in ((*product, False)[:5] for product in products)
    ]
    return sum(work) / sum(w / share for w, share in zip(work, shares, strict=True))


def _share(m, n, k, batch, multiprocessors, tile, parts):
    """Return the efficiency of one tile and number of parts, relative to the best shape's."""
    rows, columns = tile
    tiles = batch * parts * math.ceil(m / rows) * math.ceil(n / columns)
    waves = math.ceil(tiles / multiprocessors)
    used = batch * parts * m * n / (waves * multiprocessors * rows * columns)
    depth = k / parts
    return used * _tile_rate(tile) / _tile_rate(TILES[0]) * depth / (depth + DEPTH_LOSS)


def _tile_rate(tile):
    intensity = tile[0] * tile[1] / (tile[0] + tile[1])
    return intensity / (intensity + TILE_LOSS)
