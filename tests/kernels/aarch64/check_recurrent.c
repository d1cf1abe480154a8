/* Steps of recurrent layers, forward and backward, against plain loops. */
#include "recurrent.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { ROWS = 3, STEPS = 2 };
static const int num_gates[] = {4, 3, 1};
static const char *const names[] = {"lstm", "gru", "simple_rnn"};

static void *draw(int dtype, int64_t n, double scale)
{
    char *p = check_room(n * check_sizes[dtype], check_sizes[dtype]);
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, p, i, check_random() * scale);
    return p;
}

static void *copy_of(int dtype, const void *from, int64_t n)
{
    char *p = check_room(n * check_sizes[dtype], 0);
    memcpy(p, from, n * check_sizes[dtype]);
    return p;
}

static number sigmoid(number x) { return 1 / (1 + (number)exp(-(double)x)); }

#define AT(p, i) check_get(dtype, p, i)

static void check_forward(const uff_recurrent_kernels *k, int kind, int dtype, int64_t units,
                          int64_t from, int64_t width, int masked, int in_place)
{
    const int g = num_gates[kind], size = check_sizes[dtype];
    const number room = dtype == UFF_F32_T ? 2e-6 : 1e-14;
    const int64_t x_row = STEPS * g * units, step_row = STEPS * units, z_row = width + 1;
    char what[64];
    snprintf(what, sizeof what, "%s %s %lld of %lld", names[kind], check_names[dtype],
             (long long)width, (long long)units);
    char *z = draw(dtype, g * ROWS * z_row, 3), *old_z = copy_of(dtype, z, g * ROWS * z_row);
    char *x = draw(dtype, ROWS * x_row, 3);
    char *bias = draw(dtype, g * units, 1), *before = draw(dtype, ROWS * units, 1);
    char *c = draw(dtype, ROWS * z_row, 1), *old_c = copy_of(dtype, c, ROWS * z_row);
    char *old_x = copy_of(dtype, x, ROWS * x_row);
    char *gates = in_place ? x : draw(dtype, ROWS * x_row, 1);
    char *after = draw(dtype, ROWS * units, 1), *hs = draw(dtype, ROWS * step_row, 1);
    char *cs = draw(dtype, ROWS * step_row, 1), *inner = draw(dtype, ROWS * step_row, 1);
    const uint8_t mask[ROWS] = {1, 0, 1};
    const uff_cell cell = {
        .rows = ROWS, .width = width, .units = units,
        .z = z, .z_row = z_row, .z_gate = ROWS * z_row,
        .x = x + from * size, .gates = kind == UFF_SIMPLE_RNN ? 0 : gates + from * size,
        .x_row = x_row, .ahead = g * units,
        .bias = kind == UFF_GRU ? bias + from * size : 0,
        .mask = masked ? mask : 0, .mask_row = 1,
        .before = before + from * size, .after = after + from * size,
        .c = kind == UFF_LSTM ? c : 0, .hs = hs + from * size,
        .cs = kind == UFF_LSTM ? cs + from * size : 0,
        .inner = kind == UFF_GRU ? inner + from * size : 0, .step_row = step_row,
    };
    k->forward[kind][dtype](&cell);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t u = 0; u < width; u++) {
            number gate[4], h, state = 0, n = 0;
            const int64_t at = r * units + from + u, step = r * step_row + from + u;
            for (int q = 0; q < g; q++)
                gate[q] = AT(old_x, r * x_row + q * units + from + u);
            number p[4];
            for (int q = 0; q < g; q++)
                p[q] = AT(old_z, (q * ROWS + r) * z_row + u);
            if (kind == UFF_LSTM) {
                for (int q = 0; q < 4; q++)
                    gate[q] = q == 2 ? tanhl(gate[q] + p[q]) : sigmoid(gate[q] + p[q]);
                state = gate[1] * AT(old_c, r * z_row + u) + gate[0] * gate[2];
                h = gate[3] * tanhl(state);
            } else if (kind == UFF_GRU) {
                for (int q = 0; q < 3; q++)
                    p[q] += AT(bias, q * units + from + u);
                n = p[2];
                gate[0] = sigmoid(gate[0] + p[0]), gate[1] = sigmoid(gate[1] + p[1]);
                gate[2] = tanhl(gate[2] + gate[1] * n);
                h = gate[0] * AT(before, at) + (1 - gate[0]) * gate[2];
            } else {
                h = tanhl(gate[0] + p[0]);
            }
            if (masked && !mask[r])
                h = AT(before, at), state = AT(old_c, r * z_row + u);
            check_close(what, at, AT(after, at), h, room);
            check_close(what, step, AT(hs, step), h, room);
            if (kind == UFF_LSTM) {
                check_close(what, at, AT(c, r * z_row + u), state, 2 * room);
                check_close(what, step, AT(cs, step), state, 2 * room);
            }
            if (kind == UFF_GRU)
                check_close(what, step, AT(inner, step), n, 4 * room);
            for (int q = 0; q < g && kind != UFF_SIMPLE_RNN; q++)
                check_close(what, at, AT(gates, r * x_row + q * units + from + u), gate[q], room);
        }
    if (!in_place)
        check_leave(what, gates);
    check_leave(what, z), check_leave(what, old_z), check_leave(what, x), check_leave(what, bias), check_leave(what, before);
    check_leave(what, c), check_leave(what, old_c), check_leave(what, old_x);
    check_leave(what, after), check_leave(what, hs), check_leave(what, cs);
    check_leave(what, inner);
}

static void check_back(const uff_recurrent_kernels *k, int kind, int dtype, int64_t units,
                       int masked, int more)
{
    const int g = num_gates[kind];
    const number room = dtype == UFF_F32_T ? 4e-6 : 2e-14;
    const int64_t x_row = STEPS * g * units, step_row = STEPS * units;
    char what[64];
    snprintf(what, sizeof what, "%s_back %s %lld", names[kind], check_names[dtype],
             (long long)units);
    char *gates = draw(dtype, ROWS * x_row, 1), *hs = draw(dtype, ROWS * step_row, 1);
    char *cs = draw(dtype, ROWS * step_row, 1), *inner = draw(dtype, ROWS * step_row, 1);
    char *dhs = draw(dtype, ROWS * step_row, 1), *before = draw(dtype, ROWS * units, 1);
    char *dh = draw(dtype, ROWS * units, 1), *dc = draw(dtype, ROWS * units, 1);
    char *old_dh = copy_of(dtype, dh, ROWS * units), *old_dc = copy_of(dtype, dc, ROWS * units);
    char *old = copy_of(dtype, gates, ROWS * x_row);
    char *dz = draw(dtype, ROWS * g * units, 1), *dy = draw(dtype, ROWS * x_row, 1);
    const uint8_t mask[ROWS] = {1, 0, 1};
    const uff_cell_back cell = {
        .rows = ROWS, .units = units, .gates = gates, .x_row = x_row,
        .hs = hs, .cs = cs, .inner = inner, .dhs = more ? dhs : 0, .step_row = step_row,
        .x_ahead = g * units, .step_ahead = units, .before = before, .before_row = units,
        .mask = masked ? mask : 0, .mask_row = 1, .dh = dh, .dc = kind == UFF_LSTM ? dc : 0,
        .dz = dz, .dx = gates, .dy = kind == UFF_GRU ? dy : 0,
    };
    k->back[kind][dtype](&cell);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t u = 0; u < units; u++) {
            const int64_t at = r * units + u, step = r * step_row + u;
            number a[4], d[4] = {0}, products[4] = {0};
            for (int q = 0; q < g; q++)
                a[q] = AT(old, r * x_row + q * units + u);
            number e = AT(old_dh, at) + (more ? AT(dhs, step) : 0), next = 0;
            number next_c = kind == UFF_LSTM ? AT(old_dc, at) : 0;
            if (masked && !mask[r]) {
                next = e;
            } else if (kind == UFF_LSTM) {
                const number y = tanhl(AT(cs, step)), v = next_c + e * a[3] * (1 - y * y);
                d[0] = v * a[2] * a[0] * (1 - a[0]);
                d[1] = v * AT(before, at) * a[1] * (1 - a[1]);
                d[2] = v * a[0] * (1 - a[2] * a[2]);
                d[3] = e * y * a[3] * (1 - a[3]);
                next_c = v * a[1];
                memcpy(products, d, sizeof d);
            } else if (kind == UFF_GRU) {
                d[0] = e * (AT(before, at) - a[2]) * a[0] * (1 - a[0]);
                d[2] = e * (1 - a[0]) * (1 - a[2] * a[2]);
                d[1] = d[2] * AT(inner, step) * a[1] * (1 - a[1]);
                products[0] = d[0], products[1] = d[1], products[2] = d[2] * a[1];
                next = e * a[0];
            } else {
                d[0] = products[0] = e * (1 - AT(hs, step) * AT(hs, step));
            }
            check_close(what, at, AT(dh, at), next, room);
            if (kind == UFF_LSTM)
                check_close(what, at, AT(dc, at), next_c, room);
            for (int q = 0; q < g; q++) {
                check_close(what, at, AT(gates, r * x_row + q * units + u), d[q], room);
                check_close(what, at, AT(dz, (r * g + q) * units + u), products[q], room);
                if (kind == UFF_GRU)
                    check_close(what, at, AT(dy, r * x_row + q * units + u), products[q], room);
            }
        }
    check_leave(what, gates), check_leave(what, hs), check_leave(what, cs);
    check_leave(what, inner), check_leave(what, dhs), check_leave(what, before);
    check_leave(what, dh), check_leave(what, dc), check_leave(what, old_dh);
    check_leave(what, old_dc), check_leave(what, old), check_leave(what, dz);
    check_leave(what, dy);
}

void UFF_FILL(recurrent)(uff_kernels *kernels);

int main(void)
{
    /* about the widths of vectors, of two and three of them, and above what a row holds */
    const int64_t sizes[] = {1, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 130, 300};
    uff_kernels kernels;
    UFF_FILL(recurrent)(&kernels);
    for (int kind = 0; kind < UFF_RECURRENT_KINDS; kind++)
        for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
            for (int s = 0; s < COUNT(sizes); s++)
                for (int flag = 0; flag < 4; flag++) {
                    check_forward(kernels.recurrent, kind, dtype, sizes[s], 0, sizes[s], flag & 1,
                                  flag >> 1);
                    check_forward(kernels.recurrent, kind, dtype, sizes[s] + 5, 2, sizes[s],
                                  flag & 1, flag >> 1);
                    check_back(kernels.recurrent, kind, dtype, sizes[s], flag & 1, flag >> 1);
                }
    return check_report("recurrent");
}
