/* SPDX-License-Identifier: Apache-2.0
 *
 * Input gradient of any convolution with weights in the `pairs` layout:
 *
 *   gx[iy][ix][c] = 0 + sum over taps (kh, kw) ascending, over o of c's group ascending, of
 *                   g[oy][ox][o] * weight[o][kh * kernel_w + kw][c]
 *   where iy = oy * stride_h + kh - pad_top and ix = ox * stride_w + kw - pad_left.
 *
 * gx holds the sums while they grow: for four input channels and one tap, the weights are
 * turned to float once, and every pixel of g adds its product to the pixel of gx that it
 * meets under that tap.
 *
 * Scratch: 16 * (out_c / groups rounded up to even) bytes.  gx must not share bytes with g.
 */
#include "tl_grad_input.h"

/* Four channels of one group, under one tap. */
typedef struct {
    const tl_conv *conv;
    const float *w;
    size_t channel[TL_BLOCK];
    size_t count;
    size_t out; /* output channels of the group */
} block;

static inline __attribute__((always_inline)) void some_pixels(size_t pixels, const block *b,
                                                              const float *g, float *gx) {
    size_t step = (size_t)b->conv->stride_w * b->conv->in_c;
    float sum[TL_TILE][TL_BLOCK];
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            sum[p][i] = i < b->count ? gx[p * step + b->channel[i]] : 0.0f;
        }
    }
    tl_accumulate(pixels, b->out, g, b->conv->out_c, b->w, sum);
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            if (i < b->count) {
                gx[p * step + b->channel[i]] = sum[p][i];
            }
        }
    }
}

/* g and gx point at the first output channel of the group and at the map's start. */
static void one_tap(const block *b, int32_t kh, int32_t kw, const float *g, float *gx) {
    const tl_conv *conv = b->conv;
    for (int32_t oy = 0; oy < conv->out_h; oy++) {
        int32_t iy = oy * conv->stride_h + kh - conv->pad_top;
        if (iy < 0 || iy >= conv->in_h) {
            continue;
        }
        int32_t ox = 0;
        int32_t end = 0; /* the pixels ox <= . < end of the row meet the map */
        while (ox < conv->out_w && ox * conv->stride_w + kw < conv->pad_left) {
            ox++;
        }
        for (end = ox; end < conv->out_w; end++) {
            if (end * conv->stride_w + kw - conv->pad_left >= conv->in_w) {
                break;
            }
        }
        const float *row = g + (size_t)(oy * conv->out_w) * conv->out_c;
        float *target = gx + (size_t)(iy * conv->in_w) * conv->in_c;
        while (ox < end) {
            size_t ix = (size_t)(ox * conv->stride_w + kw - conv->pad_left);
            const float *from = row + (size_t)ox * conv->out_c;
            if (ox + TL_TILE <= end) {
                some_pixels(TL_TILE, b, from, target + ix * conv->in_c);
                ox += TL_TILE;
            } else {
                some_pixels(1, b, from, target + ix * conv->in_c);
                ox++;
            }
        }
    }
}

static void one_segment(const tl_conv *conv, size_t group, const tl_segment *segment,
                        const float *g, float *gx, float *w) {
    size_t taps = (size_t)conv->kernel_h * conv->kernel_w;
    size_t in = conv->in_c / conv->groups;
    block b = {conv, w, {0, 0, 0, 0}, 0, conv->out_c / conv->groups};
    for (size_t first = 0; first < segment->width; first += TL_BLOCK) {
        size_t left = segment->width - first;
        b.count = left < TL_BLOCK ? left : TL_BLOCK;
        for (size_t i = 0; i < b.count; i++) {
            b.channel[i] = group * in + tl_channel_at(conv, segment->first + first + i);
        }
        for (size_t tap = 0; tap < taps; tap++) {
            tl_block_to_float(segment, taps, tap, first, b.count, b.out, w);
            one_tap(&b, (int32_t)(tap / conv->kernel_w), (int32_t)(tap % conv->kernel_w),
                    g + group * b.out, gx);
        }
    }
}

void tl_conv2d_general_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                      const int8_t *rest, float *gx, float *scratch) {
    size_t taps = (size_t)conv->kernel_h * conv->kernel_w;
    size_t in = conv->in_c / conv->groups;
    size_t out = conv->out_c / conv->groups;
    tl_segment learn = {kept, conv->kept, 0};
    tl_segment frozen = {rest, in - conv->kept, conv->kept};
    size_t n = (size_t)conv->in_h * conv->in_w * conv->in_c;
    for (size_t i = 0; i < n; i++) {
        gx[i] = 0.0f;
    }
    for (size_t group = 0; group < conv->groups; group++) {
        one_segment(conv, group, &learn, g, gx, scratch);
        one_segment(conv, group, &frozen, g, gx, scratch);
        if (learn.width) {
            learn.weight += tl_pairs_size(out, tl_pairs_quads(taps * learn.width));
        }
        if (frozen.width) {
            frozen.weight += tl_pairs_size(out, tl_pairs_quads(taps * frozen.width));
        }
    }
}
