"""Networks that torchvision does not have, built from their published definitions."""

import math
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class Opaque(nn.Module):
    """Something that can be called and nothing more, such as an engine of TensorRT or a session of ONNX Runtime."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the callable returns."""
        return self.call(*inputs, **named)


class Scripted(nn.Module):
    """A TorchScript module, which lets nobody watch its parts, as one layer that holds all weights."""

    def __init__(self, scripted: nn.Module) -> None:
        super().__init__()
        self.parts = [scripted]  # in a list: no part of this module, so that nothing is hooked to it
        self._hold()

    def forward(self, *inputs: Any) -> Any:
        """What the script returns."""
        return self.parts[0](*inputs)

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> "Scripted":
        """Weights that go elsewhere, or change their type, do so in the script."""
        self.parts[0]._apply(change, recurse)  # type: ignore[no-untyped-call]
        self._hold()
        return self

    def _hold(self) -> None:
        for name, weight in self.parts[0].named_parameters():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(weight, weight.requires_grad))
        for name, buffer in self.parts[0].named_buffers():
            self.register_buffer(name.replace(".", "_"), buffer)


# LeNet and AlexNet


def lenet() -> nn.Module:
    """LeNet for pictures of 28 x 28: two convolutions with 6 and 16 filters of 5 x 5, then 120, 60 and 10 outputs.

    Counted as connections - one operation per weight and per bias of a convolution at each place, one per weight of a
    linear layer - conv1 takes 24 x 24 x 6 x (25 + 1) = 89,856 and fc3 60 x 10 = 600.
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 6, 5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(256, 120),
            relu3=nn.ReLU(),
            fc2=nn.Linear(120, 60),
            relu4=nn.ReLU(),
            fc3=nn.Linear(60, 10),
        )
    )


def alexnet_2012() -> nn.Module:
    """AlexNet as it was published (Krizhevsky, Sutskever and Hinton, NIPS 2012), unlike torchvision's later one.

    For pictures of 227 x 227; 61.0 million parameters and 0.72 billion multiply-adds. Its second, fourth and fifth
    convolutions see half of the channels each: one half lived on each of two GPUs.
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 96, 11, stride=4),
            relu1=nn.ReLU(inplace=True),
            norm1=nn.LocalResponseNorm(5),
            pool1=nn.MaxPool2d(3, 2),
            conv2=nn.Conv2d(96, 256, 5, padding=2, groups=2),
            relu2=nn.ReLU(inplace=True),
            norm2=nn.LocalResponseNorm(5),
            pool2=nn.MaxPool2d(3, 2),
            conv3=nn.Conv2d(256, 384, 3, padding=1),
            relu3=nn.ReLU(inplace=True),
            conv4=nn.Conv2d(384, 384, 3, padding=1, groups=2),
            relu4=nn.ReLU(inplace=True),
            conv5=nn.Conv2d(384, 256, 3, padding=1, groups=2),
            relu5=nn.ReLU(inplace=True),
            pool5=nn.MaxPool2d(3, 2),
            flatten=nn.Flatten(),
            fc6=nn.Linear(9216, 4096),
            relu6=nn.ReLU(inplace=True),
            drop6=nn.Dropout(),
            fc7=nn.Linear(4096, 4096),
            relu7=nn.ReLU(inplace=True),
            drop7=nn.Dropout(),
            fc8=nn.Linear(4096, 1000),
        )
    )


# YOLOv3 and Tiny YOLOv3 (yolov3.cfg, yolov3-tiny.cfg; Redmon, 2018)
# Both give raw feature maps, coarsest first: 3 anchors x (4 coordinates + 1 objectness + classes) channels each.

CLASSES = 80
"""Classes of COCO."""
ANCHORS = 3
"""Per scale."""
STAGES = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))
"""Darknet-53: channels and residual blocks of each stage; each stage halves height and width."""


class ConvBlock(nn.Sequential):
    """Convolution without bias, batch normalisation, leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.1, inplace=True),
        )


class Residual(nn.Module):
    """Halve the channels, restore them, add the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvBlock(channels, channels // 2, 1), ConvBlock(channels // 2, channels, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as the input."""
        added: Tensor = x + self.body(x)
        return added


class Neck(nn.Sequential):
    """Five convolutions, 1x1 and 3x3 by turns, to `channels`."""

    def __init__(self, inputs: int, channels: int) -> None:
        wide = channels * 2
        super().__init__(
            ConvBlock(inputs, channels, 1),
            ConvBlock(channels, wide, 3),
            ConvBlock(wide, channels, 1),
            ConvBlock(channels, wide, 3),
            ConvBlock(wide, channels, 1),
        )


def _head(channels: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(ConvBlock(channels, hidden, 3), nn.Conv2d(hidden, ANCHORS * (5 + CLASSES), 1))


def _lateral(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(ConvBlock(inputs, outputs, 1), nn.Upsample(scale_factor=2, mode="nearest"))


def _stage(channels: int, blocks: int) -> nn.Sequential:
    down = ConvBlock(channels // 2, channels, 3, stride=2)
    return nn.Sequential(down, *(Residual(channels) for _ in range(blocks)))


class YoloV3(nn.Module):
    """61,949,149 parameters with 80 classes; maps at strides 32, 16 and 8."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBlock(3, 32, 3)
        self.stages = nn.ModuleList(_stage(channels, blocks) for channels, blocks in STAGES)
        self.necks = nn.ModuleList([Neck(1024, 512), Neck(512 + 256, 256), Neck(256 + 128, 128)])
        self.laterals = nn.ModuleList([_lateral(512, 256), _lateral(256, 128)])
        self.heads = nn.ModuleList([_head(512, 1024), _head(256, 512), _head(128, 256)])

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Height and width must be multiples of 32."""
        x = self.stem(images)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        x = self.necks[0](features[4])
        maps = [self.heads[0](x)]
        for scale, skipped in ((1, features[3]), (2, features[2])):
            x = self.necks[scale](torch.cat((self.laterals[scale - 1](x), skipped), dim=1))
            maps.append(self.heads[scale](x))
        return tuple(maps)


class TinyYoloV3(nn.Module):
    """8,852,366 parameters with 80 classes; 8,858,734 with the running means and variances its published file holds.

    Maps at strides 32 and 16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.front = _pooled((3, 16, 32, 64, 128))
        self.middle = ConvBlock(128, 256, 3)
        self.back = nn.Sequential(
            nn.MaxPool2d(2, 2),
            ConvBlock(256, 512, 3),
            # Darknet lets this window reach past the right and lower edge, where it sees nothing: the size stays.
            nn.ConstantPad2d((0, 1, 0, 1), -math.inf),
            nn.MaxPool2d(2, 1),
            ConvBlock(512, 1024, 3),
            ConvBlock(1024, 256, 1),
        )
        self.lateral = _lateral(256, 128)
        self.heads = nn.ModuleList([_head(256, 512), _head(128 + 256, 256)])

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Height and width must be multiples of 32."""
        middle = self.middle(self.front(images))
        back = self.back(middle)
        fine = torch.cat((self.lateral(back), middle), dim=1)
        return self.heads[0](back), self.heads[1](fine)


def _pooled(channels: tuple[int, ...]) -> nn.Sequential:
    pairs = pairwise(channels)
    return nn.Sequential(*(part for pair in pairs for part in (ConvBlock(*pair, 3), nn.MaxPool2d(2, 2))))


# OSNet (Zhou, Yang, Cavallaro and Xiang, ICCV 2019): one person told from another by what is seen at several scales


class OsBlock(nn.Module):
    """Four streams that see 3, 5, 7 and 9 pixels wide, each weighed by the same gate, added to what came in."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        middle = outputs // 4
        self.reduce = _batch_normed(nn.Conv2d(inputs, middle, 1, bias=False))
        self.streams = nn.ModuleList(nn.Sequential(*map(_light, [middle] * depth)) for depth in (1, 2, 3, 4))
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(middle, middle // 16, 1),
            nn.ReLU(),
            nn.Conv2d(middle // 16, middle, 1),
            nn.Sigmoid(),
        )
        self.restore = nn.Sequential(nn.Conv2d(middle, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """As many channels as the block puts out, the same height and width."""
        reduced = self.reduce(x)
        seen = [stream(reduced) for stream in self.streams]
        joined = sum(scale * self.gate(scale) for scale in seen)
        out: Tensor = self.relu(self.restore(joined) + self.shortcut(x))
        return out


def _batch_normed(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU())


def _light(channels: int) -> nn.Sequential:
    """A convolution of 3 x 3 as one over channels and one over each channel's pixels."""
    over_channels = nn.Conv2d(channels, channels, 1, bias=False)
    over_pixels = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    return nn.Sequential(over_channels, *_batch_normed(over_pixels))


def osnet_x1_0() -> nn.Module:
    """For pictures of people, 256 x 128: 512 numbers each; 2.2 million parameters and 0.98 billion multiply-adds."""
    stages: list[nn.Module] = []
    for inputs, outputs in ((64, 256), (256, 384), (384, 512)):
        stages += [OsBlock(inputs, outputs), OsBlock(outputs, outputs)]
        if outputs < 512:
            stages += [_batch_normed(nn.Conv2d(outputs, outputs, 1, bias=False)), nn.AvgPool2d(2)]
    return nn.Sequential(
        _batch_normed(nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)),
        nn.MaxPool2d(3, 2, padding=1),
        *stages,
        _batch_normed(nn.Conv2d(512, 512, 1, bias=False)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
    )


# CRNN (Shi, Bai and Yao, 2015): a line of text read as a sequence of columns

LETTERS = 37
"""Of the alphabet in any case, digits, and none."""


class Crnn(nn.Module):
    """8.3 million parameters; a grey line of 32 x 100 pixels gives 26 columns."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.Sequential(
            *_seen(1, 64),
            nn.MaxPool2d(2),
            *_seen(64, 128),
            nn.MaxPool2d(2),
            *_batch_normed(nn.Conv2d(128, 256, 3, padding=1)),
            *_seen(256, 256),
            nn.MaxPool2d(2, (2, 1), padding=(0, 1)),
            *_batch_normed(nn.Conv2d(256, 512, 3, padding=1)),
            *_seen(512, 512),
            nn.MaxPool2d(2, (2, 1), padding=(0, 1)),
            *_batch_normed(nn.Conv2d(512, 512, 2)),
        )
        self.first = nn.LSTM(512, 256, bidirectional=True)
        self.joined = nn.Linear(512, 256)
        self.second = nn.LSTM(256, 256, bidirectional=True)
        self.letters = nn.Linear(512, LETTERS)

    def forward(self, lines: Tensor) -> Tensor:
        """Columns x lines x letters."""
        columns = self.columns(lines).squeeze(2).permute(2, 0, 1)
        sequence = self.joined(self.first(columns)[0])
        read: Tensor = self.letters(self.second(sequence)[0])
        return read


def _seen(inputs: int, outputs: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()
