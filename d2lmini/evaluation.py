"""Accuracy of a classifier."""

import torch


def accuracy(y_hat, y):
    """Count the correct predictions.

    Parameters
    ----------
    y_hat : torch.Tensor
        Scores, (batch, classes).
    y : torch.Tensor
        Labels, (batch,), on the same device.

    Returns
    -------
    torch.Tensor
        The count, a scalar on the device, so that the caller decides when to wait for it.

    Examples
    --------
    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    tensor(1)
    """
    return (y_hat.argmax(dim=1) == y).sum()


@torch.no_grad()
def evaluate_accuracy(net, data_iter, device):
    """Compute the accuracy of a classifier over a data set.

    Parameters
    ----------
    net : callable
        Maps a batch to scores (batch, classes). A module keeps its mode: call ``net.eval()`` first
        if that matters.
    data_iter : iterable
        Yields (X, y) batches; every example counts once, including those of a partial last batch.
    device : torch.device or str
        Where `net` computes.

    Returns
    -------
    float
        Correct predictions divided by examples.

    Raises
    ------
    ValueError
        If `data_iter` yields no example.

    Examples
    --------
    >>> batches = [(torch.eye(2), torch.tensor([0, 0])), (torch.eye(2)[:1], torch.tensor([0]))]
    >>> round(evaluate_accuracy(lambda X: X, batches, "cpu"), 3)
    0.667
    """
    correct, count = torch.zeros((), dtype=torch.int64, device=device), 0
    for X, y in data_iter:
        correct += accuracy(net(X.to(device)), y.to(device))
        count += len(y)
    if count == 0:
        raise ValueError("the data iterator yielded no example; there is nothing to evaluate")
    return correct.item() / count
