"""The training's network, its floating-point operations, and the peak of the processor it runs on."""

from __future__ import annotations

import time

import torch
from torch import nn

IMAGE_SIDE = 8
CHANNELS = (48, 96)
HIDDEN = 128
CLASSES = 10
KERNEL_SIDE = 3


def build() -> nn.Sequential:
    """A small convolutional network for (batch, 1, 8, 8) images; returns (batch, 10) logits."""
    first, second = CHANNELS
    half = IMAGE_SIDE // 2
    return nn.Sequential(
        nn.Conv2d(1, first, KERNEL_SIDE, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, KERNEL_SIDE, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * half * half, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )


def flops_per_sample() -> float:
    """Floating-point operations of one image's forward and backward pass.

    Two for each multiply-add of the convolutions and linear layers; the backward pass costs twice
    the forward pass.
    """
    first, second = CHANNELS
    pixels = IMAGE_SIDE**2
    multiply_adds = (
        pixels * KERNEL_SIDE**2 * (1 * first + first * second)
        + second * (IMAGE_SIDE // 2) ** 2 * HIDDEN
        + HIDDEN * CLASSES
    )
    return 3.0 * 2.0 * multiply_adds


def measured_peak_flops(size: int = 768, repetitions: int = 5) -> float:
    """FLOP/s of one thread in a large matrix product, the best of ``repetitions``.

    A CPU has no data sheet with a dense peak, so the demonstration measures one.
    """
    left, right = torch.rand(size, size), torch.rand(size, size)
    best = float("inf")
    for _ in range(repetitions):
        begin = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begin)
    return 2.0 * size**3 / best
