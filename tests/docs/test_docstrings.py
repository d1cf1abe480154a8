"""Docstrings: there, in numpydoc's form, true to the signature, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from numpydoc.docscrape import NumpyDocString
from public import public_objects

import uniflexflow

PUBLIC = public_objects()
every_object = pytest.mark.parametrize("name", sorted(PUBLIC))


def parsed(thing):
    return NumpyDocString(inspect.getdoc(thing) or "")


def documented_methods(thing):
    """Yield (name, method) of what a class itself defines and documents."""
    for name, method in vars(thing).items():
        if not name.startswith("_") and inspect.isfunction(method) and method.__doc__:
            yield name, method


def parameter_groups(doc):
    """Return the names in Parameters, without stars: ``mean, variance : float`` has two."""
    # numpydoc takes a name without a type for a type
    listed = [entry.name or entry.type for entry in doc["Parameters"]]
    return [[name.strip().lstrip("\\*") for name in names.split(",")] for names in listed]


#: ``Model(inputs, outputs)`` makes one of these.
MADE_BY = {uniflexflow.Model: (uniflexflow.models.Functional,)}


def signature_names(thing):
    """Return what can be given, through ``**kwargs`` to a base class too, in order."""
    if not inspect.isclass(thing):
        return [n for n in inspect.signature(thing).parameters if n != "self"]
    names = []
    for base in MADE_BY.get(thing, ()) + inspect.getmro(thing):
        init = vars(base).get("__init__")
        if inspect.isfunction(init):
            parameters = inspect.signature(init).parameters.values()
            names += [p.name for p in parameters if p.name not in ("self", *names)]
            if thing not in MADE_BY and all(p.kind is not p.VAR_KEYWORD for p in parameters):
                break
    return names


def own_names(thing):
    """Return the parameters that stand in the signature itself."""
    function = thing.__init__ if inspect.isclass(thing) else thing
    if not inspect.isfunction(function):
        return []
    parameters = inspect.signature(function).parameters.values()
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.name != "self" and p.kind not in stars]


#: From this number of parameters on, a function or class must tell of them; with fewer, a
#: summary may name them. Methods keep to what their family's base class tells.
MANY = 3


def faults(thing, where, is_family=True):
    """Return what is wrong with a docstring; ``is_family`` is False for methods."""
    doc = parsed(thing)
    summary = " ".join(doc["Summary"])
    found = []
    if not summary.endswith((".", "?", "!")):
        found.append(f"{where}: the summary {summary!r} does not end in a full stop")
    groups, taken = parameter_groups(doc), signature_names(thing)
    unknown = [n for group in groups for n in group if n not in taken]
    if unknown:
        found.append(f"{where}: Parameters tells of {unknown}; the signature has {taken}")
        return found
    untold = [n for n in own_names(thing) if n not in {n for group in groups for n in group}]
    if untold and (groups or is_family and len(own_names(thing)) >= MANY):
        found.append(f"{where}: Parameters does not tell of {untold}")
    told = [group[0] for group in groups]
    order = sorted(told, key=taken.index)
    if told != order:
        found.append(f"{where}: Parameters is {told}; the signature's order is {order}")
    return found


@every_object
def test_docstring(name):
    thing = PUBLIC[name]
    assert inspect.getdoc(thing), f"{name} has no docstring"
    wrong = faults(thing, name)
    if inspect.isclass(thing):
        for method_name, method in documented_methods(thing):
            wrong += faults(method, f"{name}.{method_name}", is_family=False)
    assert not wrong, "\n".join(wrong)


def test_the_checks_see_faults():
    def fine(x, y=1):
        """Add.

        Parameters
        ----------
        x, y : number
        """

    def other(x, y=1):
        """Add

        Parameters
        ----------
        z : number
        """

    def turned(x, y=1):
        """Add.

        Parameters
        ----------
        y : number
        x : number
        """

    assert not faults(fine, "fine")

    def partly(x, y=1):
        """Add.

        Parameters
        ----------
        x : number
        """

    def silent(x, y, z):
        """Add."""

    assert "does not tell of ['y']" in faults(partly, "f")[0]
    assert "does not tell of ['x', 'y', 'z']" in faults(silent, "f")[0]
    assert not faults(silent, "f", is_family=False)
    stop, unknown = faults(other, "f")
    assert "full stop" in stop
    assert "tells of ['z']" in unknown
    assert "order" in faults(turned, "f")[0]


MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(uniflexflow.__path__, "uniflexflow.")
    if not m.name.endswith("__main__")
)


def namespace_of(module):
    """Return the names that an example may use: the module's, ``uff``, ``np``."""
    return {**vars(module), "uff": uniflexflow, "np": np}


@pytest.mark.parametrize("name", ["uniflexflow", *MODULES])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    said = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        module, name, extraglobs=namespace_of(module)
    ):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(len(t.examples) for m in modules for t in finder.find(m, m.__name__)) > 100
