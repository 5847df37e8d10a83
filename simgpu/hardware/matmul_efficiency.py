"""How much of a peak a product on tensor cores reaches by its shape: one rule for all GPUs.

A library cuts the result into tiles and gives each multiprocessor one tile after the other (NVIDIA,
*Matrix Multiplication Background User's Guide*, 2023). Four losses multiply:

- *Tile quantisation*: tiles at the edges compute what nobody asked for.
- *Wave quantisation*: in the last round of tiles some multiprocessors have none.
- *Tile size*: a tile of a x b loads ``a + b`` values for every ``a * b`` that it adds up. Small
  tiles spend more time loading: ``ab / (a + b + TILE_LOSS)``, relative to the largest tile.
- *Depth*: filling and emptying a tile costs as much as `DEPTH_LOSS` steps along k.

The library is taken to choose the best tile, and into how many parts it splits k so that there is
enough to do (each part costs its own filling). Products with a side below `THIN` use no tiles: they
do little with each value that they load, so that the memory limits them, not this.

What is left is the share that products of the best shape reach, which is measured: 86.9 % on an
A100, 80.3 % on an H100, 77.6 % on a B200 (S. Bekman, *Machine Learning Engineering*, bfloat16).
`THIN`, `TILE_LOSS` and `DEPTH_LOSS` are round numbers, assumed, the same for all GPUs and fitted to
nothing. They are for tensor cores, which are so fast that loading decides. The ordinary cores are
eight times slower and more and lose less; for them all shapes are alike.
"""

import functools
import math

BEST = 0.8  # share of the peak at the best shape, of GPUs for which nobody has published it
TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
TILE_LOSS = 16
DEPTH_LOSS = 128
SPLITS = (1, 2, 4, 8)
THIN = 32  # half a side of the smallest tile


@functools.lru_cache(maxsize=4096)
def matmul_efficiency(m, n, k, batch, multiprocessors, best=BEST):
    """Return the share of the peak that ``batch`` products ``(m, k) @ (k, n)`` reach.

    Parameters
    ----------
    m, n, k : int
        Rows of the result, its columns, and the length that is summed over; from 1 on.
    batch : int
        Products in one kernel.
    multiprocessors : int
        That the GPU has.
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
            f"{batch} products of {m} x {k} and {k} x {n} have an empty side; give sizes from 1 on"
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
    """Return the share of the peak that several products reach together, one after the other.

    Parameters
    ----------
    products : tuple of tuple of int
        ``(m, n, k, batch)`` of each.
    multiprocessors, best
        As for `matmul_efficiency`.
    """
    work = [m * n * k * batch for m, n, k, batch in products]
    if not any(work):
        return best
    shares = [matmul_efficiency(*product, multiprocessors, best) for product in products]
    return sum(work) / sum(w / share for w, share in zip(work, shares, strict=True))


def _share(m, n, k, batch, multiprocessors, tile, parts):
    """Return the share that one choice of tile and parts loses nothing of."""
    rows, columns = tile
    tiles = batch * parts * math.ceil(m / rows) * math.ceil(n / columns)
    waves = math.ceil(tiles / multiprocessors)
    used = batch * parts * m * n / (waves * multiprocessors * rows * columns)
    depth = k / parts
    return used * _tile_rate(tile) / _tile_rate(TILES[0]) * depth / (depth + DEPTH_LOSS)


def _tile_rate(tile):
    intensity = tile[0] * tile[1] / (tile[0] + tile[1])
    return intensity / (intensity + TILE_LOSS)
