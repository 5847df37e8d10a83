"""How much of a GPU's peak a matrix product of a given shape reaches: one rule for all GPUs.

A library cuts the result into tiles and gives each multiprocessor one tile after the other (NVIDIA,
*Matrix Multiplication Background User's Guide*, 2023). Four losses multiply:

- *Tile quantisation*: tiles at the edges compute what nobody asked for.
- *Wave quantisation*: in the last round of tiles some multiprocessors have none.
- *Tile size*: a tile of a x b loads ``a + b`` values for every ``a * b`` that it adds up. Small
  tiles spend more time loading: ``ab / (a + b + TILE_LOSS)``, relative to the largest tile.
- *Depth*: filling and emptying a tile costs as much as `DEPTH_LOSS` steps along k.

The library is taken to choose the best tile, and into how many parts it splits k so that there is
enough to do (each part costs its own filling). What is left is the share that products of the best
shape reach, which is measured: 86.9 % on an A100, 80.3 % on an H100, 77.6 % on a B200 (S. Bekman,
*Machine Learning Engineering*, bfloat16). `TILE_LOSS` and `DEPTH_LOSS` are round numbers, assumed,
the same for all GPUs and fitted to nothing.
"""

import functools
import math

BEST = 0.8  # share of the peak at the best shape, of GPUs for which nobody has published it
TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
TILE_LOSS = 16
DEPTH_LOSS = 128
SPLITS = (1, 2, 4, 8)


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
        In (0, `best`).

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
    return best * max(
        _share(m, n, k, batch, multiprocessors, tile, parts)
        for tile in TILES
        for parts in SPLITS
        if parts <= k
    )


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
