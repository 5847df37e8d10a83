"""A small language model: the network that this book trains, from chapter to chapter larger."""

from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal self-attention: each token reads from itself and from those before it.

    Parameters
    ----------
    width : int
        Numbers that describe a token.
    heads : int
        Attentions side by side, each over ``width / heads`` of these numbers.

    Examples
    --------
    >>> import torch
    >>> Attention(width=8, heads=2)(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, width, heads):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} cannot be divided by {heads} heads")
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        """Map (batch, tokens, width) to the same shape."""
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, heads, tokens, size)
            for each in self.qkv(x).chunk(3, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A Transformer block: attention mixes tokens, then an MLP works on each token alone.

    Parameters
    ----------
    width, heads : int
        As in `Attention`. The MLP is four times as wide inside.

    Examples
    --------
    >>> sum(p.numel() for p in Block(width=8, heads=2).parameters())
    872
    """

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """Map (batch, tokens, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Predict each next token of a text with a stack of Transformer blocks, as GPT-2 does.

    Parameters
    ----------
    words : int, default 96
        Different tokens; 96 are enough for the characters of `load_text`.
    width, heads, layers : int
        Sizes; the default is small enough to learn on a CPU within seconds. GPT-2 has 768, 12, 12
        (Radford et al. 2019).
    length : int, default 64
        The longest text that it can read, in tokens.

    Examples
    --------
    >>> import torch
    >>> LanguageModel()(torch.zeros(2, 64, dtype=torch.int64)).shape
    torch.Size([2, 64, 96])
    >>> large = LanguageModel(width=768, heads=12, layers=12, length=1024)
    >>> f"{sum(p.numel() for p in large.parameters()) / 1e6:.0f} million parameters"
    '86 million parameters'
    """

    def __init__(self, words=96, width=64, heads=4, layers=2, length=64):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        """Map tokens, (batch, tokens), to logits for the next ones, (batch, tokens, words)."""
        x = self.word(tokens) + self.place.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))
