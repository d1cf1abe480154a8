"""Boston housing: 506 rows of 13 features, for regression."""

from __future__ import annotations

from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch
from uniflexflow.datasets.housing import load_split

SHA256 = "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Split:
    """Load the Boston housing prices (Harrison and Rubinfeld, 1978).

    One feature is built on an assumption about race; prefer ``california_housing``
    outside of history.

    Parameters
    ----------
    path : str
        A file or folder, or a file name in the cache.
    test_split : float
        Fraction of the rows to hold out.
    seed : int
        Of the shuffle before the cut.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Features float64 of shape ``(n, 13)``; prices in thousands of dollars ``(n,)``.
    """
    return load_split(fetch("boston_housing", "boston_housing.npz", SHA256, path), test_split, seed)
