"""All rows of the tables of operations."""

import op_cases
import op_cases_convolution
import op_cases_nn
import op_cases_recurrent
import op_cases_shape

TABLES = (op_cases, op_cases_shape, op_cases_nn, op_cases_convolution, op_cases_recurrent)
CASES = [case for table in TABLES for case in table.CASES]
IDS = [case.id for case in CASES]
