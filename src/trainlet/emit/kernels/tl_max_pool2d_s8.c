/* SPDX-License-Identifier: Apache-2.0
 *
 * Max pooling, int8.  A window is cut at the map's border, and must hold one
 * element at least.  index, where wanted, gets the position of the largest
 * value in the uncut window, row * kernel_w + column, the first of equals; so
 * kernel_h * kernel_w is at most 256.  Pixels ascend, channels within a pixel
 * ascend.  No scratch.
 *
 * A channel is stored while later channels of its window are unread: see
 * tl_conv2d_depthwise_s8.c for what an overlapping output must keep to.
 */
#include "tl_pool.h"

void tl_max_pool2d_s8(const tl_pool *pool, const int8_t *x, int8_t *y, uint8_t *index) {
    const size_t channels = pool->channels;
    size_t out = 0;
    for (int32_t row = 0; row < pool->out_h; row++) {
        for (int32_t column = 0; column < pool->out_w; column++) {
            const tl_pool_window at = tl_pool_window_at(pool, x, row, column);
            for (size_t channel = 0; channel < channels; channel++, out++) {
                const int8_t *from = at.x + channel;
                int32_t largest = -129;
                size_t where = 0;
                for (size_t i = 0; i < at.rows; i++, from += at.x_row) {
                    for (size_t j = 0; j < at.columns; j++) {
                        if (from[j * at.x_step] > largest) {
                            largest = from[j * at.x_step];
                            where = (at.top + i) * pool->kernel_w + at.left + j;
                        }
                    }
                }
                y[out] = (int8_t)largest;
                if (index != NULL) {
                    index[out] = (uint8_t)where;
                }
            }
        }
    }
}
