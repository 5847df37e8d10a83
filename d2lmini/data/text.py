"""A text to learn from: paragraphs of this book, as its first edition has them."""

from importlib.resources import files

import torch

FIRST = 32  # of the printable characters of ASCII, a space; a line break becomes token 95


def load_text():
    """Return the book's text as tokens, one for each character.

    The text is part of the package: 404 paragraphs of the chapters without formulas and numbers
    that are computed, under the licence of the book's text (CC BY 4.0). It never changes, so that
    what is learned from it stays the same.

    Returns
    -------
    torch.Tensor
        Tokens from 0 to 95, about 98,000, int64.

    See Also
    --------
    text_batch : Random pieces of it.
    to_text : The characters of tokens.

    Examples
    --------
    >>> to_text(load_text()[:30])
    'A small network, LeNet, trains'
    """
    text = files("d2lmini.data").joinpath("book.txt").read_bytes()
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long() - FIRST
    return tokens.where(tokens >= 0, 95)


def text_batch(tokens, size, length, seed=0):
    """Draw pieces of a text, and for each token the one that follows.

    Parameters
    ----------
    tokens : torch.Tensor
        A text, as `load_text` returns it.
    size, length : int
        Pieces, and tokens of each.
    seed : int
        The same pieces for the same seed.

    Returns
    -------
    X, y : torch.Tensor
        Tokens and those that follow them, both (size, length).

    Raises
    ------
    ValueError
        If the text is too short.

    Examples
    --------
    >>> X, y = text_batch(load_text(), size=4, length=8)
    >>> X.shape, torch.equal(X[:, 1:], y[:, :-1])
    (torch.Size([4, 8]), True)
    """
    if len(tokens) <= length:
        raise ValueError(f"a text of {len(tokens)} tokens has no pieces of {length + 1}")
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(tokens) - length, (size, 1), generator=generator)
    places = starts + torch.arange(length)
    return tokens[places], tokens[places + 1]


def to_text(tokens):
    """Return the characters of tokens.

    Parameters
    ----------
    tokens : torch.Tensor
        Tokens, (n,).

    Returns
    -------
    str

    Examples
    --------
    >>> to_text(torch.tensor([40, 73, 1]))
    'Hi!'
    """
    return "".join("\n" if token == 95 else chr(token + FIRST) for token in tokens.tolist())
