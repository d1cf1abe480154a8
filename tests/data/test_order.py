"""The order of samples: by seed and epoch alone, each sample once, on any number of ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uniflexflow.data import Epochs, make_source
from uniflexflow.data.sampler import Sampler, permutation


def rows_of(size, rank, *, n, batch_size, shuffle, epoch, seed=5):
    """List the rows that a rank gets, batch by batch."""
    source = make_source(
        np.arange(n), batch_size=batch_size, shuffle=shuffle, seed=seed, rank=rank, size=size
    )
    return [feeds[0].tolist() for _, _, feeds in Epochs(source).epoch(epoch)]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 40),
    batch_size=st.integers(1, 12),
    size=st.integers(1, 5),
    shuffle=st.sampled_from([True, False, "batch"]),
    epoch=st.integers(0, 3),
)
def test_global_batches_do_not_depend_on_the_number_of_ranks(n, batch_size, size, shuffle, epoch):
    how = {"n": n, "batch_size": batch_size, "shuffle": shuffle, "epoch": epoch}
    alone = rows_of(1, 0, **how)
    shares = [rows_of(size, rank, **how) for rank in range(size)]
    together = [sum((share[i] for share in shares), []) for i in range(len(alone))]
    assert together == alone
    assert sorted(sum(alone, [])) == list(range(n))
    assert [len(b) for b in alone[:-1]] == [batch_size] * (len(alone) - 1)


def test_permutations_differ_by_seed_and_by_epoch():
    orders = {tuple(permutation(s, e, 20)) for s in range(3) for e in range(3)}
    assert len(orders) == 9


def test_the_order_is_pinned():
    # a change here would make old checkpoints resume with other batches
    assert permutation(1, 0, 6).tolist() == PINNED


PINNED = [4, 0, 1, 2, 5, 3]


def test_shuffle_batch_keeps_each_batch_together():
    batches = rows_of(1, 0, n=10, batch_size=4, shuffle="batch", epoch=0)
    assert [sorted(b) for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches != [sorted(b) for b in batches]


def test_shuffle_may_be_a_number():
    assert Sampler(8, 4, 0, seed=1).order(0) is None
    assert Sampler(8, 4, 1, seed=1).order(0).tolist() == permutation(1, 0, 8).tolist()


@pytest.mark.parametrize("start", range(4))
def test_an_epoch_can_begin_at_any_batch(start):
    source = make_source(np.arange(14), batch_size=4, shuffle=True, seed=1)
    whole = [f[0].tolist() for _, _, f in Epochs(source).epoch(2)]
    rest = [f[0].tolist() for _, _, f in Epochs(source).epoch(2, start)]
    assert rest == whole[start:]


@pytest.mark.parametrize("batch_size", [0, -1, 2.5])
def test_bad_batch_size(batch_size):
    with pytest.raises(ValueError, match="batch_size"):
        Sampler(3, batch_size, False, 0)


def test_bad_shuffle():
    with pytest.raises(ValueError, match="shuffle"):
        Sampler(3, 1, "epoch", 0)
