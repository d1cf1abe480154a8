"""Which algorithm computes what several could."""

from __future__ import annotations

from uniflexflow._core import winograd_plan


def convolution_algorithm() -> str:
    """Return the algorithm of 3 x 3 convolutions: ``"direct"`` or ``"winograd"``.

    Examples
    --------
    >>> convolution_algorithm()
    'direct'
    """
    return winograd_plan.algorithm()


def set_convolution_algorithm(algorithm: str) -> None:
    """Choose the algorithm of 3 x 3 convolutions and their gradients.

    ``"winograd"`` takes a quarter of the multiplications, F(4 x 4, 3 x 3) of Lavin, Gray 2016
    ("Fast algorithms for convolutional neural networks", https://arxiv.org/abs/1509.09308), for
    float32 windows of 3 x 3 without strides, dilation and groups whose channels and filters are
    multiples of 16, from 32 on; others stay as they are. Largest errors are some 8 times those of
    ``"direct"``, in weight gradients up to 30 times: in the layers of ResNet-50 and VGG-16 some
    1e-4 of the results' standard deviation, 3.4e-4 in the sums over most pixels. A NaN or an
    infinity in an image makes all results of the tiles that meet it NaN, up to 8 x 8.

    It holds for what is traced from then on: call it before a model's first step. All ranks
    must choose the same; one that doesn't is told when a step is made.

    Parameters
    ----------
    algorithm : str
        ``"direct"``, the default, or ``"winograd"``.

    Raises
    ------
    ValueError
        For any other name.

    Examples
    --------
    >>> set_convolution_algorithm("winograd")
    >>> convolution_algorithm()
    'winograd'
    >>> set_convolution_algorithm("direct")
    """
    winograd_plan.set_algorithm(algorithm)
