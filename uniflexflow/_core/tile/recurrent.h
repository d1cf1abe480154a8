/* One step of recurrent layers, apart from the product with the recurrent kernel: for some
 * sequences (rows) and some units (columns), all gates of a unit at once.
 *
 * The formulas are those of ops/recurrent.py. Strides and distances count elements. Pointers
 * show the first row and unit of this call. No alignment is needed. Every element depends on
 * its own row and unit alone, whatever the others of the call are.
 */
#ifndef UFF_RECURRENT_H
#define UFF_RECURRENT_H

#include "kernels.h"

/* A step forward. Gates of one row are `units` apart in x, gates and bias. What a kind of
 * layer doesn't have is not read: c and cs are of an LSTM, inner and bias of a GRU, gates of
 * both.
 *
 * z and c are tiles: rows one behind the other, of z_row elements, of which the last may be
 * more than `width`; they are computed on and must hold numbers. Gates of z are tiles one
 * behind the other. */
typedef struct {
    int64_t rows, width, units;
    void *z; /* products of the state before with the recurrent kernel; overwritten */
    int64_t z_row, z_gate; /* z_gate = rows * z_row */
    const void *x; /* the inputs' part; gates may be the same memory */
    void *gates;
    int64_t x_row; /* of x and gates */
    int64_t ahead; /* from x to what the next step reads, which is fetched; or 0 */
    const void *bias;
    const uint8_t *mask; /* 0: the states stay as they are; NULL: none does */
    int64_t mask_row;
    const void *before; /* h before the step; rows `units` apart, as those of after */
    void *after;        /* h after it */
    void *c;            /* a tile: before the step, then after it */
    void *hs, *cs, *inner; /* h, c and the third part of the products, for all steps */
    int64_t step_row;      /* of these */
} uff_cell;

/* A step backward: from the gradient of the state after the step to that of the products.
 * dh and dc become what reaches the state before the step past the product: its part comes
 * on top. */
typedef struct {
    int64_t rows, units;
    const void *gates;
    int64_t x_row;
    const void *hs, *cs, *inner; /* after this step; step_row */
    const void *dhs;             /* what else arrives at h after this step, or NULL; step_row */
    int64_t step_row;
    int64_t x_ahead, step_ahead; /* to what the next call reads, or 0 */
    const void *before;          /* c (LSTM) or h (GRU) before the step */
    int64_t before_row;
    const uint8_t *mask;
    int64_t mask_row;
    void *dh, *dc; /* rows `units` apart */
    void *dz;      /* of the products; rows follow each other */
    void *dx, *dy; /* of the inputs' part (may be gates) and, of a GRU, dz again; x_row */
} uff_cell_back;

typedef void (*uff_cell_fn)(const uff_cell *cell);
typedef void (*uff_cell_back_fn)(const uff_cell_back *cell);

enum { UFF_LSTM, UFF_GRU, UFF_SIMPLE_RNN, UFF_RECURRENT_KINDS };

struct uff_recurrent_kernels {
    uff_cell_fn forward[UFF_RECURRENT_KINDS][2]; /* float32, float64 */
    uff_cell_back_fn back[UFF_RECURRENT_KINDS][2];
};

#endif
