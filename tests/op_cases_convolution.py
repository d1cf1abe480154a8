"""Rows of the convolution and pooling families; see ``op_case``."""

from op_case import Case

CASES: list[Case] = []
