/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient of average pooling: each element of a window, clipped at the map's border to
 * n real elements, receives gy * (1 / n).  gx starts from 0, and the windows add to it in
 * ascending order, so overlapping windows accumulate.  No scratch; gx must not share
 * bytes with gy.
 */
#include "tl_kernels.h"

static inline size_t at_least_zero(int32_t v) {
    return v > 0 ? (size_t)v : 0;
}

static inline size_t at_most(int32_t v, size_t high) {
    return v < 0 ? 0 : (size_t)v < high ? (size_t)v : high;
}

static void spread(const tl_pool *pool, size_t top, size_t bottom, size_t left, size_t right,
                   const float *gy, float *gx) {
    float inverse = 1.0f / (float)((bottom - top) * (right - left));
    for (size_t c = 0; c < pool->channels; c++) {
        float share = gy[c] * inverse;
        for (size_t row = top; row < bottom; row++) {
            float *element = gx + (row * pool->in_w + left) * pool->channels + c;
            for (size_t column = left; column < right; column++) {
                *element += share;
                element += pool->channels;
            }
        }
    }
}

void tl_avg_pool2d_grad_f32(const tl_pool *pool, const float *gy, float *gx) {
    size_t n = (size_t)pool->in_h * pool->in_w * pool->channels;
    for (size_t i = 0; i < n; i++) {
        gx[i] = 0.0f;
    }
    for (int32_t oy = 0; oy < pool->out_h; oy++) {
        int32_t y = oy * pool->stride_h - pool->pad_top;
        size_t top = at_least_zero(y);
        size_t bottom = at_most(y + pool->kernel_h, pool->in_h);
        for (int32_t ox = 0; ox < pool->out_w; ox++) {
            int32_t x = ox * pool->stride_w - pool->pad_left;
            size_t left = at_least_zero(x);
            size_t right = at_most(x + pool->kernel_w, pool->in_w);
            if (top < bottom && left < right) {
                spread(pool, top, bottom, left, right, gy, gx);
            }
            gy += pool->channels;
        }
    }
}
