/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of any kernel, stride, padding and number of groups; int8 in and out.
 *
 * Output pixels are taken four at a time in ascending order.  The windows of
 * the tile are gathered tap by tap, padding as the input's zero point, and
 * widened into scratch for every group; then each group is multiplied two
 * output channels at a time (tl_matmul.h).  All windows of a tile are read
 * before any of its results are written.  A segment that covers all channels
 * of the map is gathered a row of the window at a time, since its taps are
 * neighbours in memory; otherwise a tap at a time.
 *
 * kept, rest: layout `pairs`, 4-byte aligned; NULL where the segment is empty.
 * scratch: with a segment's quads = ceil(width * kernel_h * kernel_w / 4),
 * 16 * groups * (kept quads + rest quads) halves for the widened tile, then
 * 4 * max(kept quads, rest quads) + 4 bytes for one window; 4-byte aligned.
 */
#include "tl_matmul.h"

/* The channels that a segment gathers at every tap. */
typedef struct {
    const uint16_t *order; /* of the group; NULL: width channels in a row */
    size_t offset;         /* from a pixel's first byte */
    size_t width;
    size_t first, quads;   /* its quads among those of the window */
    int in_rows;           /* whether a row of a window is one run of bytes */
} segment;

/* What all windows of a call share. */
typedef struct {
    const tl_conv *conv;
    const int8_t *x;
    int32_t last_row, last_column; /* of the windows that lie inside the map */
    size_t last_start;             /* of those with three bytes of the map after them */
    int32_t minus_zero;
    size_t quads;
    int8_t *window;
} source;

static inline int8_t *fill(int8_t *to, size_t n, int8_t value) {
    for (size_t i = 0; i < n; i++) {
        to[i] = value;
    }
    return to + n;
}

/* Copies taps neighbouring taps of a row; `in_c` bytes lie between taps. */
static inline int8_t *gather_taps(int8_t *to, const int8_t *from, const segment *part, size_t taps,
                                  size_t in_c) {
    size_t n = part->width;
    if (n == in_c && part->order == NULL) {
        n *= taps;
        taps = 1;
    }
    for (; taps > 0; taps--, from += in_c, to += n) {
        size_t i = 0;
        if (part->order != NULL) {
            for (; i < n; i++) {
                to[i] = from[part->order[i]];
            }
            continue;
        }
        for (; i + 4 <= n; i += 4) {
            tl_store4(to + i, tl_load4(from + i));
        }
        for (; i < n; i++) {
            to[i] = from[i];
        }
    }
    return to;
}

/* Gathers a window that may reach over the map's border. */
static __attribute__((noinline)) int8_t *gather_any(const tl_conv *conv, const int8_t *x, int32_t row, int32_t column,
                          const segment *part, int8_t *to) {
    const int32_t width = conv->in_w, kernel_w = conv->kernel_w;
    const int32_t left = column < 0 ? (-column < kernel_w ? -column : kernel_w) : 0;
    const int32_t over = column + kernel_w - width;
    const int32_t right = over > 0 ? (over < kernel_w - left ? over : kernel_w - left) : 0;
    const size_t inside = (size_t)(kernel_w - left - right);
    const int8_t zero = (int8_t)conv->in_zero;
    for (int32_t tap = 0; tap < conv->kernel_h; tap++, row++) {
        if (row < 0 || row >= conv->in_h || inside == 0) {
            to = fill(to, (size_t)kernel_w * part->width, zero);
            continue;
        }
        const size_t pixel = (size_t)row * (size_t)width + (size_t)(column + left);
        const int8_t *from = x + pixel * conv->in_c + part->offset;
        to = fill(to, (size_t)left * part->width, zero);
        to = gather_taps(to, from, part, inside, conv->in_c);
        to = fill(to, (size_t)right * part->width, zero);
    }
    return to;
}

/* Copies `rows` runs of n bytes, x_row bytes apart, in whole words: each run may bring up to
 * three bytes too many, which the next one overwrites. */
static inline void gather_rows(int8_t *to, const int8_t *from, size_t rows, size_t n,
                               size_t x_row) {
    for (; rows > 0; rows--, from += x_row, to += n) {
        for (size_t i = 0; i < n; i += 4) {
            tl_store4(to + i, tl_load4(from + i));
        }
    }
}

/* Gathers the window whose first tap is at (row, column) of the map, and widens it into lane
 * `pixel` of its quads in `scratch`. */
static __attribute__((noinline)) void gather(const source *from, const segment *part, int32_t row,
                                             int32_t column, int16_t *scratch, size_t pixel) {
    const tl_conv *conv = from->conv;
    int8_t *window = from->window;
    const size_t quads = part->quads, first = part->first, all = from->quads;
    const int32_t minus_zero = from->minus_zero;
    const size_t n = (size_t)conv->kernel_w * conv->in_c, x_row = (size_t)conv->in_w * conv->in_c;
    const size_t at = (size_t)row * x_row + (size_t)column * conv->in_c;
    if (part->in_rows && row >= 0 && row <= from->last_row && column >= 0 &&
        column <= from->last_column && at <= from->last_start) {
        gather_rows(window, from->x + at, conv->kernel_h, n, x_row);
    } else {
        int8_t *end = gather_any(conv, from->x, row, column, part, window);
        fill(end, (size_t)(window + 4 * quads - end), 0);
    }
    for (size_t quad = 0; quad < quads; quad++, window += 4) {
        tl_widen_quad(tl_load4(window), minus_zero, scratch, all, first + quad, pixel);
    }
}

void tl_conv2d_general_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                          const int8_t *rest, const int32_t *bias, int8_t *y, uint8_t *mask,
                          int16_t *scratch) {
    const size_t pixels = (size_t)conv->out_h * conv->out_w, out_c = conv->out_c;
    const size_t groups = conv->groups, out_group = out_c / groups, in_group = conv->in_c / groups;
    const size_t taps = (size_t)conv->kernel_h * conv->kernel_w;
    const size_t rest_width = in_group - conv->kept;
    const size_t kept_quads = (conv->kept * taps + 3) / 4;
    const size_t rest_quads = (rest_width * taps + 3) / 4, quads = kept_quads + rest_quads;
    const size_t pair_bytes = (out_group + 1) / 2 * 8;
    const uint16_t *order = conv->order;
    const size_t map = (size_t)conv->in_h * conv->in_w * conv->in_c;
    const size_t span =
        ((conv->kernel_h - 1u) * (size_t)conv->in_w + conv->kernel_w) * conv->in_c;
    segment parts[2] = {
        {order, 0, conv->kept, 0, kept_quads, order == NULL && conv->kept == conv->in_c},
        {order == NULL ? NULL : order + conv->kept, 0, rest_width, kept_quads, rest_quads,
         order == NULL && rest_width == conv->in_c},
    };
    const source from = {
        conv,
        x,
        conv->in_h - conv->kernel_h,
        conv->in_w - conv->kernel_w,
        map > span + 3 ? map - span - 3 : 0,
        tl_minus_zero(conv->in_zero),
        quads,
        (int8_t *)(scratch + TL_QUAD_HALVES * groups * quads),
    };
    if (mask != NULL) {
        tl_mask_clear(mask, pixels * out_c);
    }
    int32_t row = -conv->pad_top, column = -conv->pad_left, left = conv->out_w;
    for (size_t p = 0; p < pixels; p += TL_TILE) {
        const size_t n = pixels - p < TL_TILE ? pixels - p : TL_TILE;
        for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
            int16_t *to = scratch;
            for (size_t group = 0; group < groups; group++, to += TL_QUAD_HALVES * quads) {
                parts[0].offset = group * in_group;
                parts[1].offset = parts[0].offset + (order == NULL ? conv->kept : 0u);
                if (kept_quads > 0) {
                    gather(&from, &parts[0], row, column, to, pixel);
                }
                if (rest_quads > 0) {
                    gather(&from, &parts[1], row, column, to, pixel);
                }
            }
            if (n == TL_TILE || pixel + 1 < n) {
                column += conv->stride_w;
                if (--left == 0) {
                    left = conv->out_w;
                    column = -conv->pad_left;
                    row += conv->stride_h;
                }
            }
        }
        const tl_target target = {y + p * out_c, n, mask, p * out_c};
        for (size_t group = 0; group < groups; group++) {
            const tl_segments weights = {
                kept_quads == 0 ? NULL : kept + group * pair_bytes * kept_quads,
                rest_quads == 0 ? NULL : rest + group * pair_bytes * rest_quads,
                kept_quads,
                rest_quads,
            };
            tl_multiply_tile(conv, scratch + TL_QUAD_HALVES * group * quads, &weights, bias,
                             &target, group * out_group, out_group);
        }
    }
}
