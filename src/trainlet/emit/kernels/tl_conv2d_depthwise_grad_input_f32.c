/* SPDX-License-Identifier: Apache-2.0
 *
 * Input gradient of a depthwise convolution with weights in the `taps` layout, two channels
 * at a time:
 *
 *   gx[iy][ix] = 0 + sum over taps (kh, kw) ascending of g[oy][ox] * weight[kh][kw]
 *   where oy * stride_h = iy + pad_top - kh and ox * stride_w = ix + pad_left - kw.
 *
 * Two channels of g are first copied, interleaved, into a plane whose rows have zeros on both
 * sides (rows above and below the map are skipped); an odd last channel is its own partner.  Input pixels fall into stride_h * stride_w
 * phases: those of one phase meet the same taps, so that each phase is a convolution of
 * stride 1 of the plane with every stride-th tap, and no product with a zero that the
 * stride inserts is computed.  Adding the product of a border zero changes no bit of a sum
 * that starts from +0.
 *
 * Scratch: 8 * (out_h * width + kernel_h * kernel_w) bytes, where
 *   width = left + max(out_w, (in_w - 1 + pad_left) / stride_w + 1)
 *   left = max(0, (kernel_w - 1) / stride_w - pad_left / stride_w)     (integer divisions)
 *
 * In place: where the maps of g and gx are equally large, gx may be g's very address.
 */
#include "tl_kernels.h"

/* A function whose loop needs all registers for itself. */
#define APART static __attribute__((noinline))
/* Before a loop of few turns: unrolling it costs more than it saves. */
#define ROLLED _Pragma("GCC unroll 1")

/* Channels that are computed together. */
#define PAIR 2

/* One phase of two channels.  Sizes count pixels, in the plane and in w: pairs of floats. */
typedef struct {
    const float *plane; /* row 0 of g, at the column that tap 0 meets for the first pixel */
    const float *w;     /* [taps_h][taps_w][PAIR] */
    float *gx[PAIR];    /* the first pixel */
    size_t width;       /* of the plane */
    size_t last;        /* the last row of the plane */
    size_t first;       /* row of the plane that tap 0 meets for the first pixel row */
    size_t taps_h, taps_w;
    size_t rows, columns;         /* pixels of the phase */
    size_t row_step, column_step; /* floats between them in gx */
} phase;

/* `pixels` (4 or 1) neighbours of a phase; row r < rows (1 or more) of w meets row -r of the
 * plane. */
static inline __attribute__((always_inline)) void
some_pixels(size_t pixels, size_t taps_w, size_t width, const float *g, const float *w,
            size_t rows, float *gx0, float *gx1, size_t step) {
    float sum[4][PAIR] = {{0.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}};
    ROLLED
    do {
        for (size_t t = 0; t < taps_w; t++) {
            for (size_t k = 0; k < pixels; k++) {
                const float *from = g + k * PAIR - t * PAIR;
                sum[k][0] += from[0] * w[t * PAIR];
                sum[k][1] += from[1] * w[t * PAIR + 1];
            }
        }
        g -= width * PAIR;
        w += taps_w * PAIR;
    } while (--rows > 0);
    for (size_t k = 0; k < pixels; k++) {
        gx0[k * step] = sum[k][0];
        gx1[k * step] = sum[k][1];
    }
}

APART void no_taps(size_t pixels, float *gx0, float *gx1, size_t step) {
    for (; pixels > 0; pixels--, gx0 += step, gx1 += step) {
        *gx0 = *gx1 = 0.0f;
    }
}

static inline __attribute__((always_inline)) void whole_phase(const phase *f, size_t taps_w) {
    size_t step = f->column_step, width = f->width, offset = 0;
    ROLLED
    for (size_t q = f->first, end = q + f->rows; q < end; q++, offset += f->row_step) {
        /* Row q - r of the plane exists for the taps low <= r < high. */
        size_t nearest = q < f->last ? q : f->last;
        size_t low = q - nearest;
        size_t high = q < f->taps_h ? q + 1 : f->taps_h;
        float *gx0 = f->gx[0] + offset, *gx1 = f->gx[1] + offset;
        size_t left = f->columns;
        if (low >= high) {
            no_taps(left, gx0, gx1, step);
            continue;
        }
        size_t rows = high - low;
        const float *g = f->plane + nearest * width * PAIR;
        const float *w = f->w + low * taps_w * PAIR;
        ROLLED
        for (; left >= 4; left -= 4, g += 4 * PAIR, gx0 += 4 * step, gx1 += 4 * step) {
            some_pixels(4, taps_w, width, g, w, rows, gx0, gx1, step);
        }
        ROLLED
        for (; left > 0; left--, g += PAIR, gx0 += step, gx1 += step) {
            some_pixels(1, taps_w, width, g, w, rows, gx0, gx1, step);
        }
    }
}

/* The loop over the taps of a row is unrolled for the usual widths. */
APART void phase_1(const phase *f) { whole_phase(f, 1); }
APART void phase_2(const phase *f) { whole_phase(f, 2); }
APART void phase_3(const phase *f) { whole_phase(f, 3); }
APART void phase_4(const phase *f) { whole_phase(f, 4); }
APART void phase_5(const phase *f) { whole_phase(f, 5); }
APART void phase_7(const phase *f) { whole_phase(f, 7); }
APART void phase_any(const phase *f) { whole_phase(f, f->taps_w); }

static void run(const phase *f) {
    switch (f->taps_w) {
    case 1: phase_1(f); break;
    case 2: phase_2(f); break;
    case 3: phase_3(f); break;
    case 4: phase_4(f); break;
    case 5: phase_5(f); break;
    case 7: phase_7(f); break;
    default: phase_any(f); break;
    }
}

static size_t taps_of(size_t kernel, size_t first, size_t stride) {
    return first < kernel ? (kernel - 1 - first) / stride + 1 : 0;
}

/* Phase (y, x): the one of pixel (y, x). kh and kw become its first taps. */
static phase phase_of(const tl_conv *conv, size_t y, size_t x, size_t *kh, size_t *kw) {
    phase f;
    *kh = (y + conv->pad_top) % conv->stride_h;
    *kw = (x + conv->pad_left) % conv->stride_w;
    f.first = (y + conv->pad_top) / conv->stride_h;
    f.last = (size_t)conv->out_h - 1;
    f.taps_h = taps_of(conv->kernel_h, *kh, conv->stride_h);
    f.taps_w = taps_of(conv->kernel_w, *kw, conv->stride_w);
    f.rows = (size_t)(conv->in_h - 1 - y) / conv->stride_h + 1;
    f.columns = (size_t)(conv->in_w - 1 - x) / conv->stride_w + 1;
    f.row_step = (size_t)conv->stride_h * conv->in_w * conv->in_c;
    f.column_step = (size_t)conv->stride_w * conv->in_c;
    return f;
}

/* Two channels: their weights, of which the next tap lies `step` on, and their index. */
typedef struct {
    const int8_t *weight[PAIR];
    size_t step[PAIR];
    size_t channel[PAIR];
} channels;

static channels channels_at(const tl_conv *conv, size_t j, const int8_t *kept,
                            const int8_t *rest) {
    channels two;
    for (size_t k = 0; k < PAIR; k++) {
        size_t position = j + k < conv->in_c ? j + k : j;
        size_t channel = conv->order ? conv->order[position] : position;
        int learns = position < conv->kept;
        two.channel[k] = channel;
        two.weight[k] = learns ? kept + position : rest + channel;
        two.step[k] = learns ? conv->kept : conv->in_c;
    }
    return two;
}

/* The taps of a phase as float, from tap (kh, kw) on. */
static void taps_to_float(const tl_conv *conv, const phase *f, const channels *two, size_t kh,
                          size_t kw, float *w) {
    for (size_t k = 0; k < PAIR; k++) {
        size_t step = two->step[k];
        size_t row = conv->stride_h * conv->kernel_w * step;
        size_t column = conv->stride_w * step;
        const int8_t *first = two->weight[k] + (kh * conv->kernel_w + kw) * step;
        float *to = w + k;
        for (size_t r = 0; r < f->taps_h; r++, first += row) {
            const int8_t *tap = first;
            for (size_t t = 0; t < f->taps_w; t++, tap += column, to += PAIR) {
                *to = (float)*tap;
            }
        }
    }
}

/* Copies two channels of g into the plane. */
static void fill_plane(const tl_conv *conv, const float *g0, const float *g1, float *plane,
                       size_t width) {
    size_t step = conv->in_c;
    for (size_t rows = conv->out_h; rows > 0; rows--) {
        float *to = plane;
        for (size_t columns = conv->out_w; columns > 0; columns--) {
            to[0] = *g0;
            to[1] = *g1;
            to += PAIR;
            g0 += step;
            g1 += step;
        }
        plane += width * PAIR;
    }
}

void tl_conv2d_depthwise_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                        const int8_t *rest, float *gx, float *scratch) {
    size_t reach = (size_t)(conv->kernel_w - 1) / conv->stride_w;
    size_t before = (size_t)conv->pad_left / conv->stride_w;
    size_t left = reach > before ? reach - before : 0;
    size_t need = (size_t)(conv->in_w - 1 + conv->pad_left) / conv->stride_w + 1;
    size_t width = left + (need > conv->out_w ? need : conv->out_w);
    float *plane = scratch + left * PAIR;
    float *w = scratch + width * conv->out_h * PAIR;
    for (float *zero = scratch; zero < w; zero++) {
        *zero = 0.0f;
    }
    int only = conv->stride_h == 1 && conv->stride_w == 1;
    size_t kh, kw;
    phase f = phase_of(conv, 0, 0, &kh, &kw);
    for (size_t j = 0; j < conv->in_c; j += PAIR) {
        channels two = channels_at(conv, j, kept, rest);
        fill_plane(conv, g + two.channel[0], g + two.channel[1], plane, width);
        for (size_t y = 0; y < conv->stride_h && y < conv->in_h; y++) {
            for (size_t x = 0; x < conv->stride_w && x < conv->in_w; x++) {
                if (!only) {
                    f = phase_of(conv, y, x, &kh, &kw);
                }
                taps_to_float(conv, &f, &two, kh, kw, w);
                f.width = width;
                f.w = w;
                f.plane = plane + (x + conv->pad_left) / conv->stride_w * PAIR;
                f.gx[0] = gx + (y * conv->in_w + x) * conv->in_c + two.channel[0];
                f.gx[1] = f.gx[0] - two.channel[0] + two.channel[1];
                run(&f);
            }
        }
    }
}
