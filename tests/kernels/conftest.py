import pytest

from uniflexflow._core import dispatch


@pytest.fixture(params=dispatch.available())
def isa(request):
    """Run a test once with the kernels of every instruction set of this machine."""
    chosen = dispatch.selected()
    dispatch.select(request.param)
    yield request.param
    dispatch.select(chosen)
