"""Reuters newswires: 11,228 texts as word numbers, of 46 topics."""

from __future__ import annotations

import numpy as np

from uniflexflow.datasets import npz
from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch
from uniflexflow.datasets.word_sequences import WordOptions, as_object_array, limit_words, prepare

SHA256 = "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916"


def load_data(
    path: str = "reuters.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    test_split: float = 0.2,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> Split:
    """Load the Reuters-21578 newswires (Lewis, 1997).

    Parameters
    ----------
    path : str
        A file or folder, or a file name in the cache.
    num_words, skip_top, maxlen, seed, start_char, oov_char, index_from
        As in ``imdb.load_data``.
    test_split : float
        Fraction of the texts to hold out.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Texts as lists of ints in object arrays; topics 0 to 45.
    """
    arrays = npz.load(fetch("reuters", "reuters.npz", SHA256, path))
    options = WordOptions(num_words, skip_top, maxlen, start_char, oov_char, index_from)
    order = np.arange(len(arrays["x"]))
    np.random.RandomState(seed).shuffle(order)
    rows, labels = prepare(arrays["x"][order], arrays["y"][order], options)
    x = as_object_array(limit_words(rows, options))
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], labels[:cut]), (x[cut:], labels[cut:])
