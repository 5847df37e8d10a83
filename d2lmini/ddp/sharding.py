"""Distribute the images of a data set over ranks, each exactly once."""

import torch
from torch.utils.data import Sampler


class ShardedBatchSampler(Sampler):
    """The part of every batch that one rank computes.

    All ranks draw the same permutation of the data set, split it into the same batches, and take
    every `world_size`-th image of each. So the batches do not depend on the number of ranks, and
    no image is repeated or left out, whereas `torch.utils.data.DistributedSampler` repeats images
    until all ranks have equally many (or, with ``drop_last=True``, leaves some out). If the sizes
    are divisible, both give each rank the same images.

    Use it as ``batch_sampler`` of a `torch.utils.data.DataLoader`.

    Parameters
    ----------
    num_images : int
        Size of the data set.
    batch_size : int
        Images per step, on all ranks together. The last batch of an epoch has the rest.
    rank, world_size : int
        Index of this process and number of processes.
    seed : int
        Seed of the permutations; must be equal on all ranks.

    Raises
    ------
    ValueError
        If there are no images, or a full batch has fewer images than there are ranks.

    Examples
    --------
    >>> ranks = [ShardedBatchSampler(5, 4, rank, world_size=2) for rank in range(2)]
    >>> [[len(share) for share in rank] for rank in ranks]
    [[2, 1], [2, 0]]
    >>> [ranks[0].size(step) for step in range(2)]
    [4, 1]
    """

    def __init__(self, num_images, batch_size, rank=0, world_size=1, seed=0):
        if num_images < 1:
            raise ValueError(f"the data set has {num_images} images; training needs at least 1")
        if batch_size < world_size:
            raise ValueError(
                f"a batch of {batch_size} images has none for some of the {world_size} ranks: "
                "raise the batch size or start fewer processes"
            )
        assert 0 <= rank < world_size, (rank, world_size)
        self.num_images = num_images
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch, start_step=0):
        """Set the epoch, which determines the permutation, and the step to start from."""
        self.epoch = epoch
        self.start_step = start_step

    def __len__(self):
        return -(-self.num_images // self.batch_size)

    def size(self, step):
        """Return the number of images in a step, on all ranks together."""
        return min(self.batch_size, self.num_images - step * self.batch_size)

    def __iter__(self):
        """Yield this rank's indices for each step, int64 of shape (share,), possibly (0,)."""
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        batches = torch.randperm(self.num_images, generator=generator).split(self.batch_size)
        for batch in batches[self.start_step :]:
            yield batch[self.rank :: self.world_size]


def my_share(num_images, rank, world_size):
    """Return the indices of the images that one rank evaluates; each belongs to exactly one rank.

    Returns
    -------
    torch.Tensor
        Indices, int64 of shape (share,); the shares differ by at most one image.

    Examples
    --------
    >>> [my_share(5, rank, 2).tolist() for rank in range(2)]
    [[0, 2, 4], [1, 3]]
    """
    return torch.arange(num_images)[rank::world_size]
