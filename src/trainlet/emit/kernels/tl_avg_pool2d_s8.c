/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling, int8, input and output at one scale.  A window is cut at the
 * map's border and divides by the elements that it has, of which there must be
 * one at least; the quotient is rounded to the nearest, halves away from zero,
 * as in TFLite.  Pixels ascend, channels within a pixel ascend.  No scratch.
 *
 * A channel is stored while later channels of its window are unread: see
 * tl_conv2d_depthwise_s8.c for what an overlapping output must keep to.
 */
#include "tl_pool.h"

static inline int8_t rounded_quotient(int32_t sum, int32_t n) {
    return (int8_t)((sum >= 0 ? sum + n / 2 : sum - n / 2) / n);
}

void tl_avg_pool2d_s8(const tl_pool *pool, const int8_t *x, int8_t *y) {
    const size_t channels = pool->channels;
    for (int32_t row = 0; row < pool->out_h; row++) {
        for (int32_t column = 0; column < pool->out_w; column++, y += channels) {
            const tl_pool_window at = tl_pool_window_at(pool, x, row, column);
            const int32_t n = (int32_t)(at.rows * at.columns);
            for (size_t channel = 0; channel < channels; channel++) {
                const int8_t *from = at.x + channel;
                int32_t sum = 0;
                for (size_t i = 0; i < at.rows; i++, from += at.x_row) {
                    for (size_t j = 0; j < at.columns; j++) {
                        sum += from[j * at.x_step];
                    }
                }
                y[channel] = rounded_quotient(sum, n);
            }
        }
    }
}
