"""ResNet-18 (He et al. 2016) for small images."""

import torch
from torch import nn


class Residual(nn.Module):
    """Two 3 x 3 convolutions and a shortcut around them.

    The shortcut is the identity, or a 1 x 1 convolution if the shape changes (He et al. 2016,
    section 3.3, option B).

    Parameters
    ----------
    in_channels, channels : int
        Channels of the input and of the output.
    stride : int
        Stride of the first convolution and of the shortcut; 2 halves height and width.
    norm : callable
        Returns a normalisation layer for a number of channels.

    Examples
    --------
    >>> Residual(16, 32, stride=2)(torch.zeros(1, 16, 28, 28)).shape
    torch.Size([1, 32, 14, 14])
    """

    def __init__(self, in_channels, channels, stride=1, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.norm1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = norm(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != channels:
            conv = nn.Conv2d(in_channels, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, norm(channels))

    def forward(self, X):
        """Map (n, in_channels, h, w) to (n, channels, h / stride, w / stride)."""
        Y = torch.relu(self.norm1(self.conv1(X)))
        return torch.relu(self.norm2(self.conv2(Y)) + self.shortcut(X))


def resnet18(num_classes=10, in_channels=1, width=64, norm=nn.BatchNorm2d):
    """Build a ResNet-18 that keeps the resolution of small images.

    The stem is a 3 x 3 convolution with stride 1 and no pooling. The original stem, a 7 x 7
    convolution with stride 2 and a pooling layer, would reduce a 28 x 28 image to 7 x 7. Everything
    after the stem is as in the original (He et al. 2016, table 1).

    Parameters
    ----------
    num_classes : int
        Length of the output.
    in_channels : int
        1 for grey images, 3 for colour.
    width : int
        Channels of the first stage; each later stage doubles them. The cost grows with its square.
    norm : callable
        Returns a normalisation layer for a number of channels; `group_norm` has no statistics
        across images.

    Returns
    -------
    nn.Sequential
        Maps images (n, in_channels, h, w) to logits (n, num_classes).

    Examples
    --------
    >>> resnet18()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    net = nn.Sequential()
    net.conv = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
    net.norm, net.relu = norm(width), nn.ReLU()
    channels = [width, width, 2 * width, 4 * width, 8 * width]
    for i in range(4):
        stride = 1 if i == 0 else 2
        first = Residual(channels[i], channels[i + 1], stride, norm)
        second = Residual(channels[i + 1], channels[i + 1], norm=norm)
        net.add_module(f"stage{i + 1}", nn.Sequential(first, second))
    net.pool, net.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net.linear = nn.Linear(channels[4], num_classes)
    return net


def group_norm(channels):
    """Return a layer that normalises each image in groups of 8 channels (Wu and He 2018).

    Unlike batch normalisation it does not couple images, so splitting a batch over processes does
    not change the result.

    Examples
    --------
    >>> group_norm(32).num_groups
    4
    """
    return nn.GroupNorm(max(1, channels // 8), channels)
