"""The documentation site: these pages, and the API from the package's docstrings."""

import importlib
import inspect
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))
os.environ["UNIFLEXFLOW_MPI"] = "0"

import uniflexflow  # noqa: E402 - from the source folder

project = "UniFlexFlow"
author = "The UniFlexFlow developers"
copyright = author
version = release = uniflexflow.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"UniFlexFlow {version}"

myst_heading_anchors = 3
autodoc_typehints = "none"  # the docstrings say it
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # an override without words is told with its base class
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

#: Public namespaces in the order of the reference: name and what is found there.
NAMESPACES = {
    "models": "Models",
    "layers": "Layers",
    "activations": "Activations",
    "losses": "Losses",
    "metrics": "Metrics",
    "optimizers": "Optimizers",
    "optimizers.schedules": "Learning-rate schedules",
    "callbacks": "Callbacks",
    "initializers": "Initializers",
    "regularizers": "Regularizers",
    "constraints": "Constraints",
    "datasets": "Data sets",
    "saving": "Saving",
    "distribution": "Distribution",
    "ops": "Operations",
    "random": "Random numbers",
    "utils": "Utilities",
    "config": "Settings",
    "dtype_policies": "Dtype policies",
    "tree": "Nested structures",
}
#: What stands in the package itself and in no namespace above.
TOP = ("Variable", "KerasTensor", "RematScope", "gradients", "remat", "show_config")


def public_names(module):
    """Return a namespace's names: ``__all__``, or what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]


class ApiPages:
    """Writes one page per namespace; what has been told on one is a link on the others."""

    def __init__(self, folder):
        self.folder = folder
        self.told = {}
        modules = [importlib.import_module(f"uniflexflow.{name}") for name in NAMESPACES]
        things = [getattr(module, name) for module in modules for name in public_names(module)]
        self.classes = {thing for thing in things if inspect.isclass(thing)}

    def write(self):
        self.folder.mkdir(exist_ok=True)
        for name, title in NAMESPACES.items():
            module = importlib.import_module(f"uniflexflow.{name}")
            # pages are not changed without need: Sphinx reads again what is newer
            self._put(name, self._page(title, module, public_names(module)))
        self._put("uniflexflow", self._page("The package", uniflexflow, TOP))

    def _put(self, name, text):
        path = self.folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def _page(self, title, module, names):
        lines = [title, "=" * len(title), "", f".. automodule:: {module.__name__}"]
        lines += ["   :no-members:", ""]
        for name in names:
            lines += self._entry(module, name)
        return "\n".join(lines)

    def _entry(self, module, name):
        thing, full = getattr(module, name), f"{module.__name__}.{name}"
        if inspect.ismodule(thing) and full.removeprefix("uniflexflow.") in NAMESPACES:
            return []  # it has a page of its own
        if inspect.ismodule(thing):
            lines = [f"{name}", "-" * len(name), "", f".. automodule:: {thing.__name__}"]
            lines += ["   :no-members:", ""]
            for inner in public_names(thing):
                lines += self._entry(thing, inner)
            return lines
        if id(thing) in self.told:
            role, first = self.told[id(thing)]
            return [f"``{full}`` is :py:{role}:`{first}`.", ""]
        is_class = inspect.isclass(thing)
        self.told[id(thing)] = ("class" if is_class else "func", full)
        if not is_class:
            return [f".. autofunction:: {full}", ""]
        lines = [f".. autoclass:: {full}"]
        # what comes from a public base class is told there
        public = next((base for base in inspect.getmro(thing)[1:] if base in self.classes), object)
        told = ", ".join(base.__name__ for base in inspect.getmro(public))
        lines += ["   :members:", f"   :inherited-members: {told}"]
        return [*lines, ""]


def true_signature(app, what, name, thing, options, signature, returned):
    """Show a class with its constructor's parameters, also if ``__new__`` takes anything."""
    if what != "class" or not inspect.isfunction(thing.__init__):
        return signature, returned
    parameters = list(inspect.signature(thing.__init__).parameters.values())[1:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain)), None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", true_signature)


ApiPages(DOCS / "api").write()
