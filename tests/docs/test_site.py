"""The documentation site is made without a warning: no broken link, no faulty docstring."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("sphinx", reason="the site needs the `docs` extra")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "trees"), str(ROOT / "docs"), str(folder / "html")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("api/layers.html", ["uniflexflow.layers.Dense", "uniflexflow.layers.Layer.add_weight"]),
        ("api/models.html", ["uniflexflow.models.Model.fit", "validation_split"]),
        ("api/ops.html", ["uniflexflow.ops.matmul"]),
        ("contributing.html", ["Add a kernel"]),
        ("design/passes.html", ["materialize"]),
    ],
)
def test_page(site, page, words):
    text = (site / page).read_text()
    assert not [word for word in words if word not in text]


def test_methods_are_told_once(site):
    text = (site / "api" / "layers.html").read_text()
    assert 'id="uniflexflow.layers.Layer.get_weights"' in text
    assert 'id="uniflexflow.layers.Dense.get_weights"' not in text


def test_classes_show_their_parameters(site):
    text = re.sub(r"<[^>]+>|\s", "", (site / "api" / "layers.html").read_text())
    assert "uniflexflow.layers.Dense(units,activation=None,use_bias=True," in text
