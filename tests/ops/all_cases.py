"""All rows of the tables of operations."""

import op_cases
import op_cases_convolution

CASES = [*op_cases.CASES, *op_cases_convolution.CASES]
IDS = [case.id for case in CASES]
