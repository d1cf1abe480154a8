"""IMDB reviews: 50,000 texts as word numbers, labelled good or bad."""

from __future__ import annotations

import numpy as np

from uniflexflow.datasets import npz
from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch
from uniflexflow.datasets.word_sequences import WordOptions, as_object_array, limit_words, prepare

SHA256 = "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"


def load_data(
    path: str = "imdb.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> Split:
    """Load the IMDB reviews (Maas et al., 2011).

    Words are numbered by frequency, from 1 for the most frequent one.

    Parameters
    ----------
    path : str
        A file or folder, or a file name in the cache.
    num_words : int, optional
        Keep words with a number (after ``index_from``) below this one.
    skip_top : int
        Drop that many of the most frequent words.
    maxlen : int, optional
        Drop reviews of this length or more.
    seed : int
        Of the shuffle.
    start_char, oov_char : int or None
        Marks for the start of a review and for a word that was dropped.
    index_from : int
        Added to each word's number, so that small numbers are free for marks.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Reviews as lists of ints in object arrays of 25,000; labels 0 or 1.
    """
    arrays = npz.load(fetch("imdb", "imdb.npz", SHA256, path))
    options = WordOptions(num_words, skip_top, maxlen, start_char, oov_char, index_from)
    rng = np.random.RandomState(seed)  # the old generator: the order that Keras gives
    parts = []
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        order = np.arange(len(x))
        rng.shuffle(order)
        parts.append(prepare(x[order], y[order], options))
    (train, y_train), (test, y_test) = parts
    rows = limit_words(train + test, options)
    n = len(train)
    return (as_object_array(rows[:n]), y_train), (as_object_array(rows[n:]), y_test)
