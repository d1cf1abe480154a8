"""Whether output is seen on a terminal: the launcher's output counts, not the one it lends."""

import os

import pytest

from uniflexflow.runtime import launch


class Stream:
    def __init__(self, tty):
        self.tty = tty

    def isatty(self):
        return self.tty


@pytest.mark.parametrize(
    "tty, launcher, behind, seen",
    [
        (True, {}, None, True),
        (False, {}, None, False),
        (True, {"OMPI_COMM_WORLD_SIZE": "1"}, "/data/job.log", False),
        (True, {"OMPI_COMM_WORLD_SIZE": "4"}, "/dev/pts/3", True),
        (False, {"PMI_SIZE": "2"}, "/dev/pts/3", False),
        (True, {"PMIX_RANK": "0"}, "pipe:[1234]", False),
    ],
)
def test_is_terminal(monkeypatch, tty, launcher, behind, seen):
    for name in (*launch._SIZES, *launch._RANKS):
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "readlink", lambda path: behind)
    assert launch.is_terminal(Stream(tty)) is seen


def test_a_stream_without_isatty_is_no_terminal():
    assert launch.is_terminal(object()) is False
