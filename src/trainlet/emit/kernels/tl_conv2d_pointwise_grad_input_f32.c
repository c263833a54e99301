/* SPDX-License-Identifier: Apache-2.0
 *
 * Input gradient of a 1x1 convolution (stride 1, no padding, one group):
 *
 *   gx[p][order[s]] = 0 + sum over o ascending of g[p][o] * weight[o][s]
 *
 * with s counting the kept channels, then the rest.  The weights of four input channels
 * are turned to float once and multiplied with all pixels, four pixels at a time.
 *
 * Scratch: 16 * (out_c rounded up to even) bytes.  gx must not share bytes with g.
 */
#include "tl_grad_input.h"

static inline __attribute__((always_inline)) void
some_pixels(size_t pixels, const tl_conv *conv, const float *g, const float *w, float *gx,
            const size_t channel[TL_BLOCK], size_t count) {
    float sum[TL_TILE][TL_BLOCK];
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            sum[p][i] = 0.0f;
        }
    }
    tl_accumulate(pixels, conv->out_c, g, conv->out_c, w, sum);
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            if (i < count) {
                gx[p * conv->in_c + channel[i]] = sum[p][i];
            }
        }
    }
}

static void one_segment(const tl_conv *conv, const tl_segment *segment, const float *g, float *gx,
                        float *w) {
    size_t pixels = (size_t)conv->in_h * conv->in_w;
    for (size_t first = 0; first < segment->width; first += TL_BLOCK) {
        size_t left = segment->width - first;
        size_t count = left < TL_BLOCK ? left : TL_BLOCK;
        size_t channel[TL_BLOCK] = {0, 0, 0, 0};
        for (size_t i = 0; i < count; i++) {
            channel[i] = tl_channel_at(conv, segment->first + first + i);
        }
        tl_block_to_float(segment, 1, 0, first, count, conv->out_c, w);
        size_t p = 0;
        for (; p + TL_TILE <= pixels; p += TL_TILE) {
            some_pixels(TL_TILE, conv, g + p * conv->out_c, w, gx + p * conv->in_c, channel, count);
        }
        for (; p < pixels; p++) {
            some_pixels(1, conv, g + p * conv->out_c, w, gx + p * conv->in_c, channel, count);
        }
    }
}

void tl_conv2d_pointwise_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                        const int8_t *rest, float *gx, float *scratch) {
    size_t width = conv->kept;
    tl_segment learn = {kept, width, 0};
    tl_segment frozen = {rest, conv->in_c - width, width};
    one_segment(conv, &learn, g, gx, scratch);
    one_segment(conv, &frozen, g, gx, scratch);
}
