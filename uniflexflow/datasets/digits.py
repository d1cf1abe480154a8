"""Hand-written digits, 8 x 8 pixels: the small data set that ships with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

Split = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def load_data() -> Split:
    """Load the digits: 1437 images for training, 360 held out.

    Every fifth image, from the second on, is held out. Source and licence (CC BY 4.0):
    ``DIGITS.md`` beside this file.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Images uint8 of shape ``(n, 8, 8)`` with values 0 to 16; labels uint8 ``(n,)``.

    Examples
    --------
    >>> (x_train, y_train), (x_test, y_test) = load_data()
    >>> x_train.shape, x_test.shape, int(x_train.max())
    ((1437, 8, 8), (360, 8, 8), 16)
    """
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    held_out = np.arange(len(images)) % 5 == 1
    train = (images[~held_out], labels[~held_out])
    return train, (images[held_out], labels[held_out])
