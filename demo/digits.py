"""The training's data: scikit-learn's 1,797 handwritten digits, augmented anew for every epoch."""

from __future__ import annotations

import numpy as np
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch.utils.data import Dataset

VALIDATION_IMAGES = 357
COPIES = 20
MAX_ROTATION_DEGREES = 25.0
MAX_SHIFT_PIXELS = 1.2
NOISE = 0.35


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 1, 8, 8) in 0..1 and labels (count,), in one fixed random order."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = torch.tensor(pixels[order] / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return images, torch.tensor(labels[order], dtype=torch.long)


class AugmentedDigits(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each image ``COPIES`` times an epoch, every time rotated, shifted and noisy in its own way.

    The work is real: it is what the data wait of the demonstration consists of.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, seed: int) -> None:
        self._images = images.numpy()
        self._labels = labels
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return COPIES * len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        position = index % len(self._labels)
        random = self._random
        angle = random.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES)
        image = ndimage.rotate(self._images[position, 0], angle, reshape=False, order=1)
        image = ndimage.shift(
            image, random.uniform(-MAX_SHIFT_PIXELS, MAX_SHIFT_PIXELS, 2), order=1
        )
        image = image + random.normal(0.0, NOISE, image.shape)
        return torch.from_numpy(image[np.newaxis].astype(np.float32)), self._labels[position]
