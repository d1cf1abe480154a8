"""``uff.datasets``: ready data sets, each with ``load_data()``.

``digits`` ships with the package. The others are looked for at a given path, in the
local caches, and then downloaded with a checksum; without a network the error says
which file to put where. See ``files`` for the search.
"""

from uniflexflow.datasets import (
    boston_housing,
    california_housing,
    cifar10,
    digits,
    fashion_mnist,
    imdb,
    mnist,
    reuters,
)

__all__ = [
    "boston_housing",
    "california_housing",
    "cifar10",
    "digits",
    "fashion_mnist",
    "imdb",
    "mnist",
    "reuters",
]
