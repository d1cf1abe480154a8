"""Sources: what goes in, in which form it comes out, and what is refused."""

import threading

import numpy as np
import pytest

from uniflexflow.data import Epochs, PyDataset, make_source, split_validation
from uniflexflow.data.batch import class_weights_of, feed_dtype
from uniflexflow.data.prefetch import Prefetch


def batches_of(source, epoch=0):
    return [[f.copy() for f in feeds] for _, _, feeds in Epochs(source).epoch(epoch)]


class Stored:
    """Rows that notice which of them are read, with the face of an h5py.Dataset."""

    chunks = None

    def __init__(self, array):
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.read = []
        self.threads = set()

    def __getitem__(self, rows):
        lo, hi, _ = rows.indices(len(self.array))
        self.read.extend(range(lo, hi))
        self.threads.add(threading.current_thread())
        return self.array[lo:hi].copy()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_stored_rows_are_read_once_and_only_a_rank_s_own(shuffle, size):
    array = np.arange(26.0).reshape(13, 2)
    read = []
    for rank in range(size):
        stored = Stored(array)
        source = make_source(stored, batch_size=4, shuffle=shuffle, seed=2, rank=rank, size=size)
        mine = batches_of(source)
        plain = make_source(array, batch_size=4, shuffle=shuffle, seed=2, rank=rank, size=size)
        for got, expected in zip(mine, batches_of(plain), strict=True):
            np.testing.assert_array_equal(got[0], expected[0])
        assert sorted(stored.read) == sorted(set(stored.read))
        assert len(stored.read) == sum(len(b[0]) for b in mine)
        assert threading.main_thread() not in stored.threads
        read += stored.read
    assert sorted(read) == list(range(13))


def test_stored_rows_are_not_read_far_ahead():
    stored = Stored(np.zeros((100, 1), "float32"))
    items = Epochs(make_source(stored, batch_size=1)).epoch(0)
    next(items)
    items.close()
    assert len(stored.read) <= 5


def test_h5py_dataset(tmp_path):
    h5py = pytest.importorskip("h5py")  # a run-time dependency of saving alone
    array = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(4, 3))
        file.create_dataset("y", data=np.arange(10))
        source = make_source(file["x"], file["y"], batch_size=4, shuffle=True, seed=1)
        got = batches_of(source)
        plain = batches_of(make_source(array, np.arange(10), batch_size=4, shuffle=True, seed=1))
    for a, b in zip(got, plain, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])


def test_split_of_stored_rows_reads_nothing():
    stored = Stored(np.arange(10.0)[:, None])
    (x, y, w), (vx, vy, vw) = split_validation(stored, np.arange(10), None, 0.3)
    assert stored.read == [] and w is None and vw is None
    assert x.shape == (7, 1) and vx.shape == (3, 1)
    np.testing.assert_array_equal(batches_of(make_source(vx, vy))[0][0][:, 0], [7, 8, 9])
    np.testing.assert_array_equal(vy, [7, 8, 9])


@pytest.mark.parametrize(
    ("given", "wide", "expected"),
    [
        ("float64", "float32", "float32"),
        ("float64", "float64", "float64"),
        ("float32", "float64", "float32"),
        ("float16", "float32", "float32"),
        ("uint8", "float32", "uint8"),
        ("uint16", "float32", "int32"),
        ("int64", "float32", "int64"),
        ("bool", "float32", "bool"),
    ],
)
def test_dtypes_that_are_fed(given, wide, expected):
    assert feed_dtype(given, wide) == expected
    source = make_source(np.ones((3, 2), given), batch_size=2, shuffle=True, float_dtype=wide)
    for (feed,) in batches_of(source):
        assert feed.dtype == expected and (feed == 1).all()


def test_text_is_refused():
    with pytest.raises(TypeError, match="dtype"):
        make_source(np.array(["a", "b"]))


def test_structures_keep_their_form():
    x = {"b": np.zeros((4, 1)), "a": [np.ones((4, 2)), np.ones((4, 3), "uint8")]}
    source = make_source(x, np.arange(4), batch_size=3)
    specs = source.specs(3)
    assert isinstance(specs, tuple) and set(specs[0]) == {"a", "b"}
    assert specs[0]["a"][1].shape == (3, 3) and specs[1].shape == (3,)
    # feeds come in the order of tree.flatten
    assert [f.shape for f in batches_of(source)[0]] == [(3, 2), (3, 3), (3, 1), (3,)]


def test_plain_lists_of_numbers_are_arrays():
    assert make_source([[1.0, 2.0], [3.0, 4.0]], [0, 1]).specs(2)[0].shape == (2, 2)


def test_rows_with_gaps_are_not_copied_at_each_batch():
    x = np.arange(40.0, dtype="float32").reshape(10, 4)[:, ::2]
    got = batches_of(make_source(x, batch_size=5))
    np.testing.assert_array_equal(np.concatenate([b[0] for b in got]), x)


def test_ambiguous_cardinality():
    with pytest.raises(ValueError, match="Data cardinality is ambiguous") as error:
        make_source(np.zeros((4, 1)), np.zeros(3))
    assert "'x' sizes: 4" in str(error.value) and "'y' sizes: 3" in str(error.value)


def test_class_weights():
    weight = {0: 2.0, 2: 0.5}
    expected = [2.0, 1.0, 0.5]
    for y in (np.arange(3), np.arange(3)[:, None], np.eye(3)):
        np.testing.assert_array_equal(class_weights_of(y, weight, "float32"), expected)
    with pytest.raises(ValueError, match="class_weight"):
        make_source(np.zeros(3), [0, 1, 2], np.ones(3), class_weight=weight)
    with pytest.raises(ValueError, match="single output"):
        make_source(np.zeros(3), {"a": np.zeros(3), "b": np.zeros(3)}, class_weight=weight)


# -- batches made by others ------------------------------------------------------------


def counting(n):
    for i in range(n):
        counting.drawn = i + 1
        yield np.full((2, 1), i, "float32"), np.full(2, i)


def test_a_generator_is_neither_replayed_nor_cut():
    source = make_source(counting(7))
    source.first_key()
    data = Epochs(source, steps=2)
    seen = [[int(f[1][0]) for _, _, f in data.epoch(e)] for e in range(3)]
    assert seen == [[0, 1], [2, 3], [4, 5]]
    assert counting.drawn == 6
    with pytest.warns(UserWarning, match="ran out of data"):
        assert [int(f[1][0]) for _, _, f in data.epoch(3)] == [6]
    with pytest.warns(UserWarning, match="ran out of data"):
        assert list(data.epoch(4)) == []


def test_a_generator_is_continued_where_a_checkpoint_was_written():
    first = Epochs(make_source(counting(9)), steps=3)
    list(first.epoch(0))
    half = first.epoch(1)
    next(half)
    state = first.get_state()
    second = Epochs(make_source(counting(9)), steps=3)
    second.source.first_key()
    second.set_state(state)
    assert [int(f[1][0]) for _, _, f in second.epoch(1, 1)] == [4, 5]
    assert [int(f[1][0]) for _, _, f in second.epoch(2)] == [6, 7, 8]


def test_a_list_of_batches_like_iterable_starts_again():
    class Loader:
        def __iter__(self):
            return counting(3)

    data = Epochs(make_source(Loader()))
    data.source.first_key()
    for epoch in range(2):
        assert [int(f[1][0]) for _, _, f in data.epoch(epoch)] == [0, 1, 2]


def test_a_list_of_batches_like_iterable_left_early_starts_again():
    class Loader:
        def __iter__(self):
            return counting(5)

    data = Epochs(make_source(Loader()), steps=2)
    for _ in range(3):
        data.rewind()
        data.source.first_key()
        assert [int(f[1][0]) for _, _, f in data.epoch(0)] == [0, 1]


def test_ranks_share_a_generator_s_batches():
    def batches():
        yield np.arange(5), np.arange(5)

    rows = [next(make_source(batches(), rank=r, size=2).run(0))[2][0].tolist() for r in range(2)]
    assert rows == [[0, 1], [2, 3, 4]]


class Squares(PyDataset):
    def __init__(self, n=5, **kwargs):
        super().__init__(**kwargs)
        self.n = n
        self.begun = self.ended = 0

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return np.full((2, 1), index, "float32")

    def on_epoch_begin(self):
        self.begun += 1

    def on_epoch_end(self):
        self.ended += 1


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_pydataset(workers):
    dataset = Squares(workers=workers, max_queue_size=2)
    data = Epochs(make_source(dataset, shuffle=False))
    assert data.steps == 5
    for epoch in range(2):
        assert [int(f[0][0, 0]) for _, _, f in data.epoch(epoch)] == [0, 1, 2, 3, 4]
    assert (dataset.begun, dataset.ended) == (2, 2)


def test_pydataset_shuffles_its_batches_by_seed_and_epoch():
    def orders():
        data = Epochs(make_source(Squares(n=20), shuffle=True, seed=3))
        return [[int(f[0][0, 0]) for _, _, f in data.epoch(e)] for e in range(2)]

    first, second = orders()
    assert first != second and sorted(first) == sorted(second) == list(range(20))
    assert orders() == [first, second]


def test_an_error_of_a_worker_comes_through():
    class Broken(Squares):
        def __getitem__(self, index):
            if index == 2:
                raise OSError("disk gone")
            return super().__getitem__(index)

    data = Epochs(make_source(Broken(workers=2)))
    with pytest.raises(OSError, match="disk gone"):
        list(data.epoch(0))


@pytest.mark.parametrize(
    "arguments",
    [{"use_multiprocessing": True}, {"workers": -1}, {"max_queue_size": 0}],
)
def test_pydataset_refuses(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Squares(**arguments)


@pytest.mark.parametrize("name", ["y", "sample_weight", "batch_size"])
def test_what_batches_contain_is_not_passed_beside_them(name):
    with pytest.raises(ValueError, match=name):
        make_source(counting(2), **{name: 4 if name == "batch_size" else np.zeros(2)})


def test_an_empty_generator_is_an_error():
    with pytest.raises(ValueError, match="gave no batch"):
        make_source(iter([])).first_key()


def test_prefetch_hands_errors_over_and_ends_its_thread():
    def make():
        yield 1
        raise RuntimeError("no more")

    ahead = Prefetch(make)
    assert next(ahead) == 1
    with pytest.raises(RuntimeError, match="no more"):
        next(ahead)
    ahead.close()

    def endless():
        while True:
            yield 0

    ahead = Prefetch(endless)
    next(ahead)
    ahead.close()
    assert not ahead._thread.is_alive()


@pytest.mark.parametrize("fraction", [0.999, -0.5, 1.0])
def test_bad_validation_split(fraction):
    with pytest.raises(ValueError, match="validation_split"):
        split_validation(np.zeros((5, 1)), np.zeros(5), None, fraction)


def test_validation_split_takes_floor():
    train, val = split_validation(np.arange(10)[:, None], np.arange(10), None, 0.25)
    assert train[1].tolist() == list(range(7)) and val[1].tolist() == [7, 8, 9]


def test_steps_per_epoch_go_on_through_the_data():
    data = Epochs(make_source(np.arange(10), batch_size=2, steps=2), steps=2)
    assert [[f[0].tolist() for _, _, f in data.epoch(e)] for e in range(2)] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]
    with pytest.warns(UserWarning, match="ran out of data"):
        assert [f[0].tolist() for _, _, f in data.epoch(2)] == [[8, 9]]
    assert [f[0].tolist() for _, _, f in data.epoch(3)] == [[0, 1], [2, 3]]


def test_steps_without_batch_size_make_the_batches():
    source = make_source(np.arange(10), steps=4)
    assert source.sampler.batch_size == 3
