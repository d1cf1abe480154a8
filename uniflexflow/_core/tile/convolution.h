/* Products whose operands are gathered by offsets: the kernel under every convolution. */
#ifndef UFF_CONVOLUTION_H
#define UFF_CONVOLUTION_H

#include "kernels.h"

/* Memory that will be read next: `runs` runs of `lines` cache lines, `step` bytes apart. A
 * product asks for `each` lines at every UFF_AHEAD elements of a block's sum, so that they are in
 * L2 when the next tile is copied: copying alone waits for memory most of its time. Evenly,
 * because what a block itself reads waits behind requests that come all at once. */
enum { UFF_AHEAD = 16 };
typedef struct {
    const char *at;
    int64_t lines, step, runs;
    int64_t line; /* the next one of this run */
    int64_t each;
} uff_ahead;

/* C[places[i]][panel of j][lane of j] =
 *     sum over q < k of  a[rows[i] + cols[q]] * b[panel of j][q][lane of j]
 * for i < m, j < n; offsets count elements.
 *
 * In a convolution i is a pixel, q a tap and channel, j a filter, `a` an image with its
 * border. In its weight gradient i is a tap and channel, q a pixel. Each sum runs over q in
 * order, whatever the shape of the register block, so a cut in i or j changes no result. */
typedef struct {
    int64_t m, n, k;
    const void *a;
    const int64_t *rows;
    const int32_t *cols;
    const void *b;   /* panels of `lanes` columns; each can be read to its full width */
    int64_t b_step;  /* from one q to the next */
    int64_t b_panel; /* from one panel to the next */
    void *c;
    int64_t c_panel; /* from one panel to the next; the panels' width if rows of C are whole */
    const int64_t *places;
    const void *bias; /* n elements added to each row, or NULL; not read if `accumulate` */
    int accumulate;   /* C += instead of C = */
    int relu;         /* negative results become 0 */
    uff_ahead ahead[2];
} uff_gathered_product;

struct uff_convolution_kernels {
    int lanes_f32, lanes_f64; /* columns of one panel */
    int rows_f32, rows_f64;   /* of the largest register block */
    void (*product_f32)(const uff_gathered_product *p);
    void (*product_f64)(const uff_gathered_product *p);
    /* dst[q][lane j] = src[q * k_step + j * n_step], j < n <= lanes; other lanes are 0 */
    void (*pack_f32)(int64_t k, int64_t n, const void *src, int64_t k_step, int64_t n_step, void *dst);
    void (*pack_f64)(int64_t k, int64_t n, const void *src, int64_t k_step, int64_t n_step, void *dst);
    /* dst[places[i] + j] += src[i * src_step + j], j < n, one i < m after the other */
    void (*add_f32)(int64_t m, int64_t n, const void *src, int64_t src_step, void *dst,
                    const int64_t *places);
    void (*add_f64)(int64_t m, int64_t n, const void *src, int64_t src_step, void *dst,
                    const int64_t *places);
    /* dst[panel of j][q][lane of j] = src[places[q] + j]; lanes from n on are 0 */
    void (*gather_f32)(int64_t k, int64_t n, const void *src, const int64_t *places, void *dst);
    void (*gather_f64)(int64_t k, int64_t n, const void *src, const int64_t *places, void *dst);
    /* The same from bfloat16 to float32, and n elements of bfloat16 as float32 and back. */
    void (*pack_bf16)(int64_t k, int64_t n, const void *src, int64_t k_step, int64_t n_step, void *dst);
    void (*gather_bf16)(int64_t k, int64_t n, const void *src, const int64_t *places, void *dst);
    void (*expand)(int64_t n, const void *src, void *dst);
    void (*narrow)(int64_t n, const void *src, void *dst);
};

#endif
