/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution, stride 1, one group, no padding; int8 in and out.
 *
 * A matrix product of pixels by output channels.  Pixels are taken four at a
 * time in ascending order: the tile's channels are widened into scratch, the
 * kept ones first, and multiplied two output channels at a time (tl_matmul.h).
 * The whole tile is read before any of its results are written.  A last tile
 * of fewer pixels repeats its last pixel and stores only what exists.
 *
 * kept, rest: layout `pairs`, 4-byte aligned; NULL where the segment is empty.
 * scratch: 16 * (ceil(kept / 4) + ceil((in_c - kept) / 4)) halves, 4-byte aligned.
 */
#include "tl_matmul.h"

/* Widens channels x[0..width) of one pixel into quads first, first + 1, ... */
static void widen_pixel(const int8_t *x, size_t width, int32_t minus_zero, int16_t *scratch,
                        size_t quads, size_t first, size_t pixel) {
    const size_t end = first + width / 4;
    for (; first < end; first++, x += 4) {
        tl_widen_quad(tl_load4(x), minus_zero, scratch, quads, first, pixel);
    }
    if (width % 4 != 0) {
        tl_widen_quad(tl_load_tail(x, width % 4), minus_zero, scratch, quads, end, pixel);
    }
}

/* The same for all four pixels of a full tile, which lie `step` bytes apart. */
static inline void widen_tile(const int8_t *x, size_t step, size_t width, int32_t minus_zero,
                              int16_t *scratch, size_t quads, size_t first) {
    size_t done = 0;
#if TL_USE_DSP
    const int8_t *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;
    tl_word *to = (tl_word *)scratch + 8 * first;
    for (; done + 4 <= width; done += 4, to += 8) {
        const int32_t w0 = tl_load4(x + done), w1 = tl_load4(x1 + done);
        const int32_t w2 = tl_load4(x2 + done), w3 = tl_load4(x3 + done);
        to[0] = tl_sxtab16(minus_zero, w0);
        to[1] = tl_sxtab16(minus_zero, w1);
        to[2] = tl_sxtab16(minus_zero, w2);
        to[3] = tl_sxtab16(minus_zero, w3);
        to[4] = tl_sxtab16_ror8(minus_zero, w0);
        to[5] = tl_sxtab16_ror8(minus_zero, w1);
        to[6] = tl_sxtab16_ror8(minus_zero, w2);
        to[7] = tl_sxtab16_ror8(minus_zero, w3);
    }
    if (done == width) {
        return;
    }
#endif
    for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
        widen_pixel(x + pixel * step + done, width - done, minus_zero, scratch, quads,
                    first + done / 4, pixel);
    }
}

/* The same for channels x[order[0]], x[order[1]], ... */
static void widen_ordered(const int8_t *x, const uint16_t *order, size_t width,
                          int32_t minus_zero, int16_t *scratch, size_t quads, size_t first,
                          size_t pixel) {
    for (; width >= 4; width -= 4, order += 4, first++) {
        const int8_t bytes[4] = {x[order[0]], x[order[1]], x[order[2]], x[order[3]]};
        tl_widen_quad(tl_load4(bytes), minus_zero, scratch, quads, first, pixel);
    }
    if (width > 0) {
        int8_t bytes[4] = {0, 0, 0, 0};
        for (size_t i = 0; i < width; i++) {
            bytes[i] = x[order[i]];
        }
        tl_widen_quad(tl_load4(bytes), minus_zero, scratch, quads, first, pixel);
    }
}

void tl_conv2d_pointwise_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                            const int8_t *rest, const int32_t *bias, int8_t *y, uint8_t *mask,
                            int16_t *scratch) {
    const size_t pixels = (size_t)conv->out_h * conv->out_w;
    const size_t in_c = conv->in_c, out_c = conv->out_c;
    const size_t kept_width = conv->kept, rest_width = in_c - kept_width;
    const tl_segments weights = {
        kept_width > 0 ? kept : NULL,
        rest_width > 0 ? rest : NULL,
        (kept_width + 3) / 4,
        (rest_width + 3) / 4,
    };
    const size_t split = weights.kept_quads, quads = split + weights.rest_quads;
    const int32_t minus_zero = tl_minus_zero(conv->in_zero);
    if (mask != NULL) {
        tl_mask_clear(mask, pixels * out_c);
    }
    for (size_t p = 0; p < pixels; p += TL_TILE) {
        const size_t n = pixels - p < TL_TILE ? pixels - p : TL_TILE;
        const int8_t *from = x + p * in_c;
        if (conv->order == NULL && n == TL_TILE) {
            widen_tile(from, in_c, kept_width, minus_zero, scratch, quads, 0);
            widen_tile(from + kept_width, in_c, rest_width, minus_zero, scratch, quads, split);
        } else {
            for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
                if (conv->order == NULL) {
                    widen_pixel(from, kept_width, minus_zero, scratch, quads, 0, pixel);
                    widen_pixel(from + kept_width, rest_width, minus_zero, scratch, quads, split,
                                pixel);
                } else {
                    widen_ordered(from, conv->order, kept_width, minus_zero, scratch, quads, 0,
                                  pixel);
                    widen_ordered(from, conv->order + kept_width, rest_width, minus_zero, scratch,
                                  quads, split, pixel);
                }
                from += pixel + 1 < n ? in_c : 0;
            }
        }
        const tl_target target = {y + p * out_c, n, mask, p * out_c};
        tl_multiply_tile(conv, scratch, &weights, bias, &target, 0, out_c);
    }
}
