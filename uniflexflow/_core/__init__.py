"""Compiled rooms: tiled operations (Cython) over tile kernels (C, ``tile/``)."""
