"""Files that can be read on a walk, under names that say what is in them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("uniflexflow", "tests", "benchmarks", "tutorials", "docs")
KINDS = {".py", ".pyx", ".pxd", ".c", ".h"}
MAX_LINES = 600
NAMELESS = {"utils", "helpers", "common", "misc"}
#: The public namespace that Keras users expect; nothing internal lives there.
ALLOWED = {"uniflexflow/utils"}


def is_generated(path):
    """Say whether Cython or Sphinx wrote the file."""
    if "_build" in path.parts:
        return True
    return path.suffix == ".c" and path.with_suffix(".pyx").exists()


def files():
    found = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*")) if p.suffix in KINDS]
    return [ROOT / "setup.py", *[p for p in found if not is_generated(p)]]


NAMES = [str(p.relative_to(ROOT)) for p in files()]


def test_there_are_files():
    assert len(NAMES) > 200


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_file_is_long(kind):
    long = [
        f"{name}: {n} lines"
        for name in NAMES
        if name.endswith(kind) and (n := (ROOT / name).read_text().count("\n")) > MAX_LINES
    ]
    assert not long, "split by concept: " + ", ".join(long)


def test_most_files_are_short():
    sizes = sorted((ROOT / name).read_text().count("\n") for name in NAMES)
    assert sizes[len(sizes) // 2] < 200


def test_names_say_what_is_inside():
    nameless = [
        name
        for name in NAMES
        for i, part in enumerate(Path(name).parts)
        if part.partition(".")[0] in NAMELESS and "/".join(Path(name).parts[: i + 1]) not in ALLOWED
    ]
    assert not nameless
