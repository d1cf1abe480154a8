/* Matrix product tiles: C (m x n) = or += A (m x k) B (k x n), row-major.
 *
 * The product is computed in micro-tiles of at most mr x nr that stay in registers. B is
 * read by vectors along n: in place if each panel of nr columns is whole, else packed in
 * panels [k][nr], the last one padded with zeros. A is read by broadcast, in place or
 * packed in panels [k][rows]. Rows are cut into ceil(m / mr) panels as even as can be
 * (uff_gemm_cut), so that no micro-tile is much smaller than the others.
 *
 *            n                         k              nr  nr
 *        +--------+               +--------+         +--+--+ ..
 *      m |   C    |   (+)=      m |   A    |    *  k |  B  |
 *        +--------+               +--------+         +--+--+ ..
 *
 * Every element is the sum over k in order, one multiply-add after another, in every
 * micro-tile: results don't depend on how m and n were cut.
 *
 * A and B in bfloat16 are always packed: expanded to float32, of which the float32 micro-tile
 * makes the products, or, where the processor multiplies pairs of them (AVX512_BF16), as the
 * pairs (k, k + 1) of a row or column, an odd k made even with zeros. Sums are float32, and a C
 * in bfloat16 is rounded once, when it is written at the end.
 */
#ifndef UFF_GEMM_H
#define UFF_GEMM_H

#include "kernels.h"

enum { UFF_A_ROWS = 0, UFF_A_COLUMNS = 1, UFF_A_PACKED = 2 };
enum { UFF_ACT_NONE = 0, UFF_ACT_RELU = 1 };

/* One block product. Strides count elements. */
typedef struct {
    int64_t m, n, k; /* k: of packed elements */
    const void *a; /* rows: A[i][p] = a[i * lda + p]; columns: a[p * lda + i] */
    int64_t lda;
    int a_form;
    const void *b; /* packed: panels of k * nr elements; else B[p][j] = b[p * ldb + j] */
    int64_t ldb;
    int b_packed;
    void *c;
    int64_t ldc;
    int accumulate;   /* add to C; else overwrite, never reading it */
    const void *bias; /* n elements of the type of C, added to each row, or NULL */
    int act;          /* applied last */
    void *out;        /* if not NULL, of float32: the result goes there as bfloat16, C stays */
    int64_t ldo;
} uff_gemm_block;

/* A vector times a matrix: y (n) = x (k) M, then bias and activation. */
typedef struct {
    int64_t n, k;
    const void *x;
    const void *matrix; /* M[p][j] = matrix[p * ld + j]; transposed: matrix[j * ld + p] */
    int64_t ld;
    int transposed;
    void *y;
    const void *bias; /* or NULL */
    int64_t bias_step; /* 1, or 0: the same one for all */
    int act;
    int rounded; /* of bfloat16 operands: y is bfloat16, not float32 */
} uff_gemm_row;

/* The functions for one element type. */
typedef struct {
    int depth; /* elements along k that are one packed element */
    int mr, nr;
    void (*block)(const uff_gemm_block *block);
    void (*row)(const uff_gemm_row *row);
    /* Pack m rows of A, k deep (form rows or columns), into m * k packed elements. */
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t lda, int form, void *out);
    /* Pack n columns of B, k deep, into ceil(n / nr) panels of k * nr elements.
     * Transposed: B[p][j] = b[j * ldb + p]. */
    void (*pack_b)(int64_t n, int64_t k, const void *b, int64_t ldb, int transposed, void *out);
} uff_gemm_type;

/* bf16_pairs is the form of AVX512_BF16 in every instruction set, which others than that one
 * compute in vectors of float32: so that it can be tested where the instruction is missing. */
struct uff_gemm_kernels {
    uff_gemm_type f32, f64, bf16, bf16_pairs;
};

/* First row of row panel t of m rows. */
static inline int64_t uff_gemm_cut(int64_t m, int64_t panels, int64_t t)
{
    return m * t / panels;
}

#endif
