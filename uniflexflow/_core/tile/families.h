/* The list of tile-kernel families: one line each.
 *
 * How to add the family `foo`:
 *  1. Add `X(foo, arg)` below.
 *  2. tile/foo.h: #include "kernels.h" and define its table, a struct of pointers to
 *     pure C functions (no allocation, no threads, no globals); state each contract:
 *         struct uff_foo_kernels { void (*scale_f32)(int64_t n, float a, float *x); };
 *  3. tile/foo.c: #include "foo.h" (and "vector.h" for vectors as wide as the target's);
 *     write the functions `static`, then
 *         static const uff_foo_kernels table = {.scale_f32 = scale_f32};
 *         void UFF_FILL(foo)(uff_kernels *k) { k->foo = &table; }
 *     The file is compiled once per instruction set (UFF_ISA is its name: v2, v3, v4,
 *     v4bf16, neon), so write for any width; test __AVX512F__ and the like where you must.
 *     A file that mentions __AVX512BF16__ is compiled for v4bf16 too, others are not.
 *  4. _core/foo.pyx: `from uniflexflow._core.dispatch cimport kernels, uff_kernels`, then
 *         cdef extern from "tile/foo.h" nogil:
 *             ctypedef struct uff_foo_kernels:
 *                 void (*scale_f32)(int64_t n, float a, float *x) noexcept nogil
 *             const uff_foo_kernels *uff_foo(const uff_kernels *k) noexcept
 *     and call `uff_foo(kernels).scale_f32(...)`: `kernels` is the table in use.
 *  5. tests/kernels/aarch64/check_foo.c: each function against a plain loop, on sizes about
 *     the vector width and starts off alignment; a test demands the file.
 */
#ifndef UFF_FAMILIES_H
#define UFF_FAMILIES_H

#define UFF_FAMILIES(X, arg) \
    X(attention, arg)        \
    X(cast, arg)             \
    X(chain, arg)            \
    X(function, arg)         \
    X(convolution, arg)      \
    X(crossentropy, arg)     \
    X(gemm, arg)             \
    X(grouped, arg)          \
    X(mixed, arg)            \
    X(movement, arg)         \
    X(pair, arg)             \
    X(probe, arg)            \
    X(random, arg)           \
    X(recurrent, arg)        \
    X(reduce, arg)           \
    X(softmax, arg)          \
    X(window, arg)           \
    X(winograd, arg)

#endif
