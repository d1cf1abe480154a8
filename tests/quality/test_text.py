"""What is written speaks of the project alone, and of work to be done by number."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("uniflexflow", "tests", "benchmarks", "tutorials", "docs", ".ci")
KINDS = {".py", ".pyx", ".pxd", ".c", ".h", ".md", ".ipynb", ".sh", ".toml", ".in", ""}
SKIPPED = {"_build", "api", "__pycache__", ".ipynb_checkpoints"}

# Directories of one person's machine. /tmp as a whole and what a distribution
# provides (/usr, /proc, /sys) are the same everywhere.
MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|root|work|mnt|scratch|tmp/\w+)/[\w.]")
# in backticks it is only spoken of
TODO = re.compile(r"(?<!`)\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\)| #\d+)")
DEAD = re.compile(r"^\s*#\s*if\s+0\b", re.MULTILINE)


def files():
    found = [p for p in sorted(ROOT.iterdir()) if p.is_file()]
    for room in ROOMS:
        found += sorted(p for p in (ROOT / room).rglob("*") if p.is_file())
    return [
        p
        for p in found
        if p.suffix in KINDS
        and not SKIPPED & set(p.relative_to(ROOT).parts)
        and not (p.suffix == ".c" and p.with_suffix(".pyx").exists())
        and p != Path(__file__).resolve()
        and p.name != ".git"
    ]


def matches(pattern):
    """Return (place, what was found) over all files."""
    found = []
    for path in files():
        text = path.read_text()
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}: {match.group()}")
    return found


def test_no_path_of_a_machine():
    assert not matches(MACHINE)


def test_work_to_be_done_has_a_number():
    assert not matches(TODO)


def test_no_code_is_switched_off():
    assert not matches(DEAD)


@pytest.mark.parametrize("path", sorted((ROOT / "tutorials").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_hold_no_outputs(path):
    """Outputs are made when a notebook is read; in the repository they are noise."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None, cell["source"]


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (MACHINE, "see /home/me/x.h5", "see /usr/share/datasets"),
        (MACHINE, '"/tmp/run1/log"', '"/tmp"'),
        (TODO, "# TODO: later", "# TODO(#12): later"),
        (DEAD, "#if 0\n", "#if 01 == LEVEL\n"),
    ],
)
def test_the_patterns_see_what_they_forbid(pattern, bad, good):
    assert pattern.search(bad) and not pattern.search(good)
