"""What is public: the objects that the API reference shows."""

import importlib
import importlib.util
import inspect
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _site():
    """Return the site's own list of namespaces, and how it finds their names."""
    tree = (ROOT / "docs" / "conf.py").read_text().partition("ApiPages(DOCS")[0]
    scope = {"__file__": str(ROOT / "docs" / "conf.py"), "__name__": "conf"}
    before = dict(os.environ)  # the site's settings are not those of other tests
    exec(compile(tree, "docs/conf.py", "exec"), scope)
    os.environ.clear()
    os.environ.update(before)
    return scope


def public_objects():
    """Return {full name: object} of all public functions and classes, each once."""
    site, found, seen = _site(), {}, set()

    def add(module, names):
        for name in names:
            thing = getattr(module, name)
            if inspect.ismodule(thing):
                add(thing, site["public_names"](thing))
            elif id(thing) not in seen:
                seen.add(id(thing))
                found[f"{module.__name__.removeprefix('uniflexflow.')}.{name}"] = thing

    for namespace in site["NAMESPACES"]:
        module = importlib.import_module(f"uniflexflow.{namespace}")
        add(module, site["public_names"](module))
    add(importlib.import_module("uniflexflow"), site["TOP"])
    return found
