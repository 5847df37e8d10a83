"""Remove and restore the padding of sequences of several lengths in one tensor."""

import torch


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """Return the tokens that a mask keeps, one after the other.

    Returns
    -------
    tuple
        The tokens, their indices among all, where each sequence begins (int32, with the end), the
        length of the longest, and how many tokens of each the `attention_mask` keeps.
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths, used = kept.sum(dim=-1, dtype=torch.int32), attention_mask.sum(-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten(), as_tuple=False).flatten()
    begins = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    tokens = index_first_axis(hidden_states.flatten(0, 1), indices)
    return tokens, indices, begins, lengths.max().item(), used


def pad_input(hidden_states, indices, batch, seqlen):
    """Put tokens back to their `indices` among all; the others are 0."""
    padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return padded.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))


def index_first_axis(values, indices):
    """Return the rows with some indices."""
    return values.index_select(0, indices)
