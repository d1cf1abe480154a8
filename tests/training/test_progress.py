"""The progress display: bars on a terminal, plain lines anywhere else."""

import io
import re
from types import SimpleNamespace

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow.training import display, progress
from uniflexflow.training.progress import Progbar

CONTROL = re.compile(r"[\x1b\b\r]")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "perf_counter", lambda: self.now)


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    # pytest puts its own stream into sys between a fixture and its test
    monkeypatch.setattr(display, "sys", SimpleNamespace(stdout=stream, modules={}))
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def plain(text):
    """Return text without colours."""
    return re.sub(r"\x1b\[\d+m", "", text)


def small_model():
    model = uff.Sequential([uff.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def test_the_bar_as_keras_shows_it(terminal, monkeypatch):
    clock = Clock(monkeypatch)
    bar = Progbar(3, stateless_metrics=())
    clock.now += 1.0
    bar.update(1, {"loss": 2.0})
    clock.now += 0.085
    bar.update(2, {"loss": 1.5})
    clock.now += 0.085
    bar.update(3, {"loss": 1.2575, "mae": 0.0004})
    shown = plain(terminal.getvalue()).split("\r")
    full = "━" * 20
    assert shown == [
        "",
        f"1/3 {full} 2s 1s/step - loss: 2.0000",
        f"2/3 {full} 0s 85ms/step - loss: 1.5000",
        f"3/3 {full} 1s 85ms/step - loss: 1.2575 - mae: 4.0000e-04\n",
    ]
    assert "\x1b[32m" + "━" * 13 + "\x1b[0m\x1b[37m" + "━" * 7 in terminal.getvalue()


def test_a_shorter_line_covers_the_longer_one(terminal, monkeypatch):
    clock = Clock(monkeypatch)
    bar = Progbar(9, stateless_metrics=())
    bar.update(1, {"loss": 1234567.0})
    clock.now += 1
    bar.update(2, {"loss": 1.0})
    first, second = plain(terminal.getvalue()).split("\r")[1:]
    assert len(second) == len(first)


def test_redraws_are_rare(terminal, monkeypatch):
    clock = Clock(monkeypatch)
    bar = Progbar(1000, stateless_metrics=())
    for i in range(500):
        clock.now += 0.001
        bar.update(i + 1, {"loss": 1.0})
    assert 9 <= terminal.getvalue().count("\r") <= 11


def test_a_line_never_wraps_while_it_is_redrawn(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    bar = Progbar(9, stateless_metrics=())
    bar.update(1, {f"metric_{i}": 1.0 for i in range(20)})
    assert len(plain(terminal.getvalue()).strip("\r")) < 60


def test_unknown_length(terminal):
    Progbar(None, stateless_metrics=()).update(1, {"loss": 1.0})
    assert "      1/Unknown" in terminal.getvalue()


def test_averages_of_stateless_values(capsys):
    bar = Progbar(4, verbose=2)
    for i, value in enumerate([1.0, 2.0, 3.0]):
        bar.update(i + 1, [("x", value)])
    assert bar._shown_values() == ["x: 2.0000"]


@pytest.mark.parametrize("verbose", ["auto", 1, 2])
def test_a_file_gets_one_plain_line_per_epoch(verbose, capsys):
    model = small_model()
    x, y = np.ones((64, 3), "float32"), np.ones((64, 1), "float32")
    model.fit(x, y, epochs=3, batch_size=4, verbose=verbose, validation_data=(x, y))
    out = capsys.readouterr().out
    assert not CONTROL.search(out)
    lines = out.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(
        r"Epoch 2/3 - 16/16 - 0s - \d+[mu]?s/step - loss: \S+ - mae: \S+ - "
        r"val_loss: \S+ - val_mae: \S+",
        lines[1],
    )


def test_a_long_epoch_shows_a_line_now_and_then(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    bar = Progbar(100, stateless_metrics=(), title="Epoch 1/2")
    for i in range(100):
        clock.now += 1.0
        bar.update(i + 1, {"loss": 1.0})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("Epoch 1/2 -  30/100 - 1:10 - 1s/step - loss: 1.0000")


def test_silence(capsys):
    model = small_model()
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model.fit(x, y, epochs=2, verbose=0)
    model.evaluate(x, y, verbose=0)
    model.predict(x, verbose=0)
    assert capsys.readouterr().out == ""


def test_fit_on_a_terminal(terminal):
    model = small_model()
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model.fit(x, y, epochs=2, batch_size=4)
    shown = plain(terminal.getvalue())
    assert shown.startswith("Epoch 1/2\n\r")
    assert shown.count("\n") == 4
    model.fit(x, y, epochs=1, batch_size=4)
    assert "Epoch 1/1" not in terminal.getvalue()


def test_ascii_output_gets_an_ascii_bar(monkeypatch):
    class Ascii(io.TextIOWrapper):
        def isatty(self):
            return True

    raw = io.BytesIO()
    stream = Ascii(raw, encoding="ascii")
    monkeypatch.setattr(display, "sys", SimpleNamespace(stdout=stream, modules={}))
    Progbar(2, stateless_metrics=()).update(2, {"loss": 1.0})
    assert "=" * 20 in raw.getvalue().decode("ascii")


def test_interactive_logging_can_be_off(capsys, caplog):
    uff.config.disable_interactive_logging()
    try:
        with caplog.at_level("INFO", logger="uniflexflow"):
            display.print_line("hello")
    finally:
        uff.config.enable_interactive_logging()
    assert capsys.readouterr().out == "" and "hello" in caplog.text


def test_only_rank_0_prints(capsys, monkeypatch):
    class Second:
        rank, size = 1, 2

    monkeypatch.setattr(display, "world", lambda: Second)
    display.print_line("hello")
    assert capsys.readouterr().out == ""


def test_bad_verbose():
    with pytest.raises(ValueError, match="verbose"):
        small_model().fit(np.ones((4, 2)), np.ones((4, 1)), verbose=3)
