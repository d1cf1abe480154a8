cdef extern from "tile/kernels.h" nogil:
    ctypedef struct uff_kernels:
        pass


cdef const uff_kernels *kernels
