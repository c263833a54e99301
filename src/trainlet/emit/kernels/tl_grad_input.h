/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pointwise and the general input gradient share: weights of four input
 * channels turned to float, and the product of a few pixels with them.
 */
#ifndef TL_GRAD_INPUT_H
#define TL_GRAD_INPUT_H

#include "tl_kernels.h"
#include "tl_weight_pairs.h"

/* Input channels that are computed together. */
#define TL_BLOCK 4

/* Output channels in one turn of the inner loop. */
#define TL_UNROLL 4

/* One segment (kept or rest) of the weights of one group. */
typedef struct {
    const int8_t *weight; /* in the `pairs` layout; NULL where the segment is empty */
    size_t width;         /* input channels in the segment */
    size_t first;         /* index of its first channel in `order` */
} tl_segment;

static inline size_t tl_channel_at(const tl_conv *conv, size_t position) {
    return conv->order ? conv->order[position] : position;
}

/* w[o][i] = weight[o][tap * width + first + i] for i < count, 0 for the others. */
static inline void tl_block_to_float(const tl_segment *segment, size_t taps, size_t tap,
                                     size_t first, size_t count, size_t out, float *w) {
    size_t quads = tl_pairs_quads(taps * segment->width);
    size_t k = tap * segment->width + first;
    if ((k & 3u) == 0) {
        /* The block is one quad of the layout; what lies behind `count` is never stored. */
        const int8_t *quad = segment->weight + k * 2;
        for (size_t o = 0; o < out; o += 2, quad += quads * 8, w += 2 * TL_BLOCK) {
            for (size_t i = 0; i < 2; i++) {
                w[i * TL_BLOCK] = (float)quad[i];
                w[i * TL_BLOCK + 1] = (float)quad[i + 4];
                w[i * TL_BLOCK + 2] = (float)quad[i + 2];
                w[i * TL_BLOCK + 3] = (float)quad[i + 6];
            }
        }
        return;
    }
    for (size_t o = 0; o < out; o++, w += TL_BLOCK) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            w[i] = i < count ? (float)segment->weight[tl_pairs_index(o, k + i, quads)] : 0.0f;
        }
    }
}

static inline __attribute__((always_inline)) void
tl_accumulate_one(size_t pixels, const float *const from[TL_TILE], size_t at, const float *w,
                  float sum[][TL_BLOCK]) {
    for (size_t p = 0; p < pixels; p++) {
        float value = from[p][at];
        for (size_t i = 0; i < TL_BLOCK; i++) {
            sum[p][i] += value * w[i];
        }
    }
}

/* sum[p][i] += g[p][o] * w[o][i], o ascending, for `pixels` (a constant: 4 or 1) pixels
 * that lie `step` floats apart. */
static inline __attribute__((always_inline)) void
tl_accumulate(size_t pixels, size_t out, const float *g, size_t step, const float *w,
              float sum[][TL_BLOCK]) {
    const float *from[TL_TILE];
    for (size_t p = 0; p < pixels; p++) {
        from[p] = g + p * step;
    }
    size_t o = 0;
    for (; o + TL_UNROLL <= out; o += TL_UNROLL) {
        for (size_t u = 0; u < TL_UNROLL; u++) {
            tl_accumulate_one(pixels, from, u, w + u * TL_BLOCK, sum);
        }
        for (size_t p = 0; p < pixels; p++) {
            from[p] += TL_UNROLL;
        }
        w += TL_UNROLL * TL_BLOCK;
    }
    for (; o < out; o++) {
        tl_accumulate_one(pixels, from, 0, w, sum);
        for (size_t p = 0; p < pixels; p++) {
            from[p]++;
        }
        w += TL_BLOCK;
    }
}

#endif
