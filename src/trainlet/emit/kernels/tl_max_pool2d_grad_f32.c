/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient of max pooling: the element that won a window (index = row * kernel_w + column
 * within the unclipped window) receives the window's gy.  gx starts from 0, and the
 * windows add to it in ascending order, so overlapping windows accumulate.  No scratch;
 * gx must not share bytes with gy or index.
 */
#include "tl_kernels.h"

void tl_max_pool2d_grad_f32(const tl_pool *pool, const float *gy, const uint8_t *index, float *gx) {
    size_t n = (size_t)pool->in_h * pool->in_w * pool->channels;
    for (size_t i = 0; i < n; i++) {
        gx[i] = 0.0f;
    }
    for (int32_t oy = 0; oy < pool->out_h; oy++) {
        int32_t top = oy * pool->stride_h - pool->pad_top;
        for (int32_t ox = 0; ox < pool->out_w; ox++) {
            int32_t left = ox * pool->stride_w - pool->pad_left;
            for (size_t c = 0; c < pool->channels; c++) {
                int32_t position = *index++;
                int32_t row = position / pool->kernel_w;
                int32_t y = top + row;
                int32_t x = left + position - row * pool->kernel_w;
                gx[(size_t)(y * pool->in_w + x) * pool->channels + c] += *gy++;
            }
        }
    }
}
