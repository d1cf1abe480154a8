"""California housing: 20,640 rows of 8 features, for regression."""

from __future__ import annotations

from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch
from uniflexflow.datasets.housing import load_split

SHA256 = "1a2e3a52e0398de6463aebe6f4a8da34fb21fbb6b934cf88c3425e766f2a1a6f"


def load_data(
    version: str = "large",
    path: str = "california_housing.npz",
    test_split: float = 0.2,
    seed: int = 113,
) -> Split:
    """Load the California housing prices (Pace and Barry, 1997).

    Parameters
    ----------
    version : str
        ``"large"``, or ``"small"`` for the first 600 rows.
    path : str
        A file or folder, or a file name in the cache.
    test_split : float
        Fraction of the rows to hold out.
    seed : int
        Of the shuffle before the cut.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Features of shape ``(n, 8)``; median house values in dollars ``(n,)``.
    """
    limits = {"large": None, "small": 600}
    if version not in limits:
        raise ValueError(
            f"california_housing: version must be 'small' or 'large'; received {version!r}."
        )
    file = fetch("california_housing", "california_housing.npz", SHA256, path)
    return load_split(file, test_split, seed, limits[version])
