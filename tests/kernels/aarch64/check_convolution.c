/* Gathered products, packing and gathering of panels. Elements are small whole numbers, so
 * that every sum is exact. */
#include "convolution.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const uff_convolution_kernels *k;

static int lanes_of(int dtype)
{
    return dtype == UFF_F64_T ? k->lanes_f64 : k->lanes_f32; /* bfloat16 is packed as float32 */
}

static void fill(int dtype, void *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, x, i, check_whole(-8, 8));
}

/* `form`: 1 accumulate, 2 bias, 4 relu; accumulation and bias never meet. C is in panels if m is
 * odd. */
static void check_product(int dtype, int64_t m, int64_t n, int64_t depth, int form)
{
    const int size = check_sizes[dtype], lanes = lanes_of(dtype);
    const int64_t panels = (n + lanes - 1) / lanes, image = 400;
    const int64_t ldc = m % 2 ? lanes : n + 3, c_panel = m % 2 ? m * lanes : lanes;
    const int64_t c_room = (m % 2 ? panels * m * lanes : m * ldc) + 1;
    char what[96];
    snprintf(what, sizeof what, "product of %s, %lld x %lld x %lld, form %d", check_names[dtype],
             (long long)m, (long long)n, (long long)depth, form);
    void *a = check_room(image * size, size), *b = check_room(depth * panels * lanes * size, size);
    void *c = check_room(c_room * size, 3 * size), *before = check_room(c_room * size, 0);
    void *bias = check_room(n * size, size);
    int64_t rows[40], places[40];
    int32_t cols[40];
    fill(dtype, a, image), fill(dtype, b, depth * panels * lanes);
    fill(dtype, c, c_room), fill(dtype, bias, n);
    if (m * n * depth > 50) /* relu keeps a NaN */
        check_put(dtype, a, check_whole(0, image - 1), NAN);
    memcpy(before, c, c_room * size);
    for (int64_t i = 0; i < m; i++) {
        rows[i] = check_whole(0, 199);
        places[i] = (m - 1 - i) * ldc; /* in any order */
    }
    for (int64_t q = 0; q < depth; q++)
        cols[q] = (int32_t)check_whole(0, 200);
    uff_gathered_product p = {
        .m = m, .n = n, .k = depth, .a = a, .rows = rows, .cols = cols, .b = b, .b_step = lanes,
        .b_panel = depth * lanes, .c = c, .c_panel = c_panel, .places = places, .bias = form & 2 ? bias : NULL,
        .accumulate = form & 1, .relu = form >> 2,
    };
    (dtype == UFF_F32_T ? k->product_f32 : k->product_f64)(&p);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < (m % 2 ? panels * lanes : ldc); j++) {
            const int64_t at = places[i] + (m % 2 ? j / lanes * c_panel + j % lanes : j);
            number want = check_get(dtype, before, at);
            if (j < n) {
                want = form & 1 ? want : form & 2 ? check_get(dtype, bias, j) : 0;
                for (int64_t q = 0; q < depth; q++)
                    want += check_get(dtype, a, rows[i] + cols[q]) *
                            check_get(dtype, b, (j / lanes * depth + q) * lanes + j % lanes);
                want = form & 4 && want < 0 ? 0 : want;
            }
            check_close(what, at, check_get(dtype, c, at), want, 0);
        }
    check_leave(what, a), check_leave(what, b), check_leave(what, c);
    check_leave(what, before), check_leave(what, bias);
}

static void check_pack(int dtype, int64_t depth, int64_t n, int turned)
{
    const int size = check_sizes[dtype], lanes = lanes_of(dtype);
    const int to = dtype == UFF_BF16_T ? UFF_F32_T : dtype, to_size = check_sizes[to];
    const int64_t k_step = turned ? 1 : n + 1, n_step = turned ? depth + 1 : 1;
    void *src = check_room((depth + 1) * (n + 1) * size, size);
    void *dst = check_room(depth * lanes * to_size, to_size);
    fill(dtype, src, (depth + 1) * (n + 1));
    (dtype == UFF_F32_T ? k->pack_f32 : dtype == UFF_F64_T ? k->pack_f64 : k->pack_bf16)
        (depth, n, src, k_step, n_step, dst);
    for (int64_t q = 0; q < depth; q++)
        for (int64_t j = 0; j < lanes; j++)
            check_close("pack", q * lanes + j, check_get(to, dst, q * lanes + j),
                        j < n ? check_get(dtype, src, q * k_step + j * n_step) : 0, 0);
    check_leave("pack", src), check_leave("pack", dst);
}

static void check_add(int dtype, int64_t m, int64_t n)
{
    const int size = check_sizes[dtype];
    const int64_t step = n + 2, room = n + 8;
    int64_t places[8];
    void *src = check_room(m * step * size, size), *dst = check_room(room * size, 3 * size);
    void *want = check_room(room * size, 0);
    fill(dtype, src, m * step), fill(dtype, dst, room);
    memcpy(want, dst, room * size);
    for (int64_t i = 0; i < m; i++) {
        places[i] = check_whole(0, 8); /* rows overlap */
        for (int64_t j = 0; j < n; j++)
            check_put(dtype, want, places[i] + j,
                      check_get(dtype, want, places[i] + j) + check_get(dtype, src, i * step + j));
    }
    (dtype == UFF_F32_T ? k->add_f32 : k->add_f64)(m, n, src, step, dst, places);
    for (int64_t j = 0; j < room; j++)
        check_close("add", j, check_get(dtype, dst, j), check_get(dtype, want, j), 0);
    check_leave("add", src), check_leave("add", dst), check_leave("add", want);
}

static void check_gather(int dtype, int64_t depth, int64_t n)
{
    const int size = check_sizes[dtype], lanes = lanes_of(dtype);
    const int to = dtype == UFF_BF16_T ? UFF_F32_T : dtype, to_size = check_sizes[to];
    const int64_t panels = (n + lanes - 1) / lanes;
    int64_t places[40];
    void *src = check_room((100 + n) * size, size);
    void *dst = check_room(panels * depth * lanes * to_size, to_size);
    fill(dtype, src, 100 + n);
    for (int64_t q = 0; q < depth; q++)
        places[q] = check_whole(0, 100);
    (dtype == UFF_F32_T ? k->gather_f32 : dtype == UFF_F64_T ? k->gather_f64 : k->gather_bf16)
        (depth, n, src, places, dst);
    for (int64_t q = 0; q < depth; q++)
        for (int64_t j = 0; j < panels * lanes; j++)
            check_close("gather", q * panels * lanes + j,
                        check_get(to, dst, (j / lanes * depth + q) * lanes + j % lanes),
                        j < n ? check_get(dtype, src, places[q] + j) : 0, 0);
    check_leave("gather", src), check_leave("gather", dst);
}

static void check_rounding(int64_t n)
{
    void *wide = check_room(n * 4, 4), *narrow = check_room(n * 2, 2), *back = check_room(n * 4, 4);
    for (int64_t i = 0; i < n; i++)
        check_put(UFF_F32_T, wide, i, i % 7 == 3 ? NAN : i % 11 == 5 ? 3.4e38 : check_random());
    k->narrow(n, wide, narrow);
    k->expand(n, narrow, back);
    for (int64_t i = 0; i < n; i++) {
        const number want =
            check_from_bfloat16(check_to_bfloat16((float)check_get(UFF_F32_T, wide, i)));
        check_same("narrow", i, check_get(UFF_BF16_T, narrow, i), want);
        check_same("expand", i, check_get(UFF_F32_T, back, i), want);
    }
    check_leave("narrow", wide), check_leave("narrow", narrow), check_leave("expand", back);
}

void UFF_FILL(convolution)(uff_kernels *kernels);

int main(void)
{
    const int64_t depths[] = {0, 1, 5, 33};
    uff_kernels kernels;
    UFF_FILL(convolution)(&kernels);
    k = kernels.convolution;
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++) {
        const int64_t lanes = lanes_of(dtype), half = lanes / 2;
        const int64_t widths[] = {1, half - 1, half, half + 1, lanes - 1, lanes, lanes + 1,
                                  lanes + half, 2 * lanes, 2 * lanes + 1};
        for (int w = 0; w < COUNT(widths); w++)
            for (int d = 0; d < COUNT(depths); d++) {
                const int64_t n = widths[w], depth = depths[d];
                for (int64_t m = 0; m <= 31; m += m < 17 ? 1 : 3)
                    for (int form = 0; form < 8; form++)
                        if ((form & 3) != 3 && ((m + form) % 3 == 0 || depth == 5))
                            check_product(dtype, m, n, depth, form);
                if (n <= lanes) {
                    check_pack(dtype, depth, n, 0);
                    check_pack(dtype, depth, n, 1);
                }
                check_gather(dtype, depth, n);
                check_add(dtype, depth > 8 ? 8 : depth, n);
            }
    }
    const int64_t lanes = k->lanes_f32;
    for (int64_t n = 1; n <= 2 * lanes + 1; n += lanes / 4)
        for (int d = 0; d < COUNT(depths); d++) {
            if (n <= lanes) {
                check_pack(UFF_BF16_T, depths[d], n, 0);
                check_pack(UFF_BF16_T, depths[d], n, 1);
            }
            check_gather(UFF_BF16_T, depths[d], n);
        }
    for (int64_t n = 0; n < 40; n++)
        check_rounding(n);
    return check_report("convolution");
}
