/* Transforms of Winograd's minimal filtering for windows of 3 x 3: F(4 x 4, 3 x 3) and the
 * weight gradient F(3 x 3, 4 x 4) over the same six points 0, 1, -1, 2, -2 and infinity
 * (Lavin, Gray 2016, "Fast algorithms for convolutional neural networks").
 *
 * A tile of 4 x 4 results needs 36 products a channel and filter instead of 144:
 *     Y = A' [(G k G') . (B' x B)] A
 * x is the tile's 6 x 6 pixels, k the window. In the weight gradient the 4 x 4 gradients take
 * the window's place and the 3 x 3 weights the results'. Products of one of the 36 positions,
 * over many tiles, are a matrix product; between them and the images stand these functions.
 * Each works on one tile, and on vectors of channels or filters, whose number must be a
 * multiple of UFF_WINOGRAD_LINE.
 */
#ifndef UFF_WINOGRAD_H
#define UFF_WINOGRAD_H

#include "kernels.h"

enum {
    UFF_WINOGRAD_OUT = 4,  /* results of a tile along an axis */
    UFF_WINOGRAD_IN = 6,   /* pixels of a tile along an axis; positions too */
    UFF_WINOGRAD_LINE = 16 /* floats: the widest vector of any target */
};

struct uff_winograd_kernels {
    /* v[p * position + c] = (B' x B)[p], where x[i] = at[i][c], c < channels. */
    void (*images)(int64_t channels, const float *const at[36], float *v, int64_t position);
    /* to[i][f] = (A' m A)[i] + bias[f], where m[p] = m[p * position + f], f < filters; not for
     * to[i] == NULL. bias may be NULL; with relu, negative results become 0. */
    void (*results)(int64_t filters, const float *m, int64_t position, const float *bias, int relu,
                    float *const to[16]);
    /* u[p * position + i] = (G k G')[p], where k[j] = taps[j * tap + i], i < count. */
    void (*window)(int64_t count, const float *taps, int64_t tap, float *u, int64_t position);
    /* The same for 4 x 4 gradients: w[p * position + f / lanes * panel + f % lanes]. */
    void (*gradients)(int64_t filters, const float *const at[16], float *w, int64_t position,
                      int64_t panel, int64_t lanes);
    /* dk[j * tap + f] = (A' m A)[j], of the 3 x 3 form, where m[p] is the sum of `parts` numbers
     * m[i * part + p * position + f]. */
    void (*weights)(int64_t filters, int64_t parts, const float *m, int64_t part, int64_t position,
                    float *dk, int64_t tap);
};

#endif
