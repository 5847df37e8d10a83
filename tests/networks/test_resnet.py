"""ResNet-18: torchvision's network, but for the stem."""

import pytest
import torch
from torch import nn

from benchmarks.import_torchvision import torchvision
from d2lmini.resnet import Residual, group_norm, resnet18

TORCHVISION_NAMES = [
    ("stage", "layer"),
    ("norm", "bn"),
    ("shortcut", "downsample"),
    ("linear", "fc"),
]


def torchvision_name(name):
    for ours, theirs in TORCHVISION_NAMES:
        name = name.replace(ours, theirs)
    return name


def after_stem(net):
    return nn.Sequential(*list(net.children())[3:])


def torchvision_after_stem(net):
    layers = [net.layer1, net.layer2, net.layer3, net.layer4]
    return nn.Sequential(*layers, net.avgpool, nn.Flatten(), net.fc)


@pytest.fixture
def pair():
    """Our network and torchvision's, the latter's weights being the former's after the stem."""
    torch.manual_seed(0)
    ours, theirs = resnet18(num_classes=10), torchvision.models.resnet18(num_classes=10)
    state = {
        torchvision_name(name): value
        for name, value in ours.state_dict().items()
        if name.startswith(("stage", "linear"))
    }
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(name.startswith(("conv1", "bn1")) for name in missing)
    return after_stem(ours), torchvision_after_stem(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("is_training", [False, True])
def test_after_the_stem_it_is_torchvisions(pair, is_training):
    torch.manual_seed(1)
    X = torch.randn(4, 64, 28, 28)
    outputs, gradients = [], []
    for net in pair:
        net.train(is_training)
        output = net(X)
        output.square().sum().backward()
        outputs.append(output)
        gradients.append(next(net.parameters()).grad)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=0)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)


@pytest.mark.slow
def test_comparison_rejects_a_shortcut_added_after_the_last_relu(pair):
    class Wrong(Residual):
        def forward(self, X):
            Y = torch.relu(self.norm1(self.conv1(X)))
            return torch.relu(self.norm2(self.conv2(Y))) + self.shortcut(X)

    ours, theirs = pair
    ours[0][0].__class__ = Wrong
    X = torch.randn(2, 64, 28, 28)
    assert not torch.allclose(ours(X), theirs(X), rtol=1e-3, atol=1e-3)


def count_by_hand(width, in_channels, num_classes):
    """Weights of all convolutions, two numbers per normalised channel, and the linear layer."""
    stem = 9 * in_channels * width + 2 * width
    total = stem + 4 * (9 * width**2 + 2 * width)  # stage 1: four convolutions, no change of shape
    for c in (2 * width, 4 * width, 8 * width):
        first = 9 * (c // 2) * c + 9 * c**2 + 4 * c
        shortcut = (c // 2) * c + 2 * c
        total += first + shortcut + 2 * (9 * c**2 + 2 * c)
    return total + 8 * width * num_classes + num_classes


@pytest.mark.parametrize(
    ("width", "in_channels", "num_classes"), [(64, 1, 10), (64, 3, 1000), (16, 1, 10)]
)
def test_number_of_parameters(width, in_channels, num_classes):
    net = resnet18(num_classes, in_channels, width)
    count = sum(p.numel() for p in net.parameters())
    assert count == count_by_hand(width, in_channels, num_classes)


def test_number_of_parameters_differs_from_torchvisions_by_stem_and_classes():
    ours = sum(p.numel() for p in resnet18().parameters())
    theirs = sum(p.numel() for p in torchvision.models.resnet18().parameters())
    stem = 7 * 7 * 3 * 64 - 3 * 3 * 1 * 64
    classes = (512 + 1) * (1000 - 10)
    assert ours == theirs - stem - classes == 11_172_810


def test_stem_keeps_the_resolution():
    net, shapes = resnet18(width=8), []
    for i in range(4):
        stage = getattr(net, f"stage{i + 1}")
        stage.register_forward_hook(lambda m, x, y: shapes.append(tuple(y.shape[1:])))
    net(torch.zeros(1, 1, 28, 28))
    assert shapes == [(8, 28, 28), (16, 14, 14), (32, 7, 7), (64, 4, 4)]


def test_group_norm_couples_no_images_and_batch_norm_does():
    X = torch.randn(4, 1, 28, 28)
    torch.manual_seed(0)
    by_image = resnet18(width=8, norm=group_norm)
    torch.testing.assert_close(by_image(X)[:2], by_image(X[:2]), rtol=1e-4, atol=1e-5)
    by_batch = resnet18(width=8)
    assert not torch.allclose(by_batch(X)[:2], by_batch(X[:2]), rtol=1e-2, atol=1e-2)
