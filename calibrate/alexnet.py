"""AlexNet as it was published (Krizhevsky, Sutskever and Hinton, NIPS 2012), unlike torchvision's later one.

Its second, fourth and fifth convolutions see half of the channels each: one half lived on each of two cards.
"""

from collections import OrderedDict

from torch import nn


def original() -> nn.Module:
    """For pictures of 227 x 227; 61.0 million parameters and 0.72 billion multiply-adds."""
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
