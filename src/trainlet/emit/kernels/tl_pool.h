/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a pooling window that lies inside the map.
 */
#ifndef TL_POOL_H
#define TL_POOL_H

#include "tl_kernels.h"

typedef struct {
    size_t top, left;          /* rows and columns of the window that were cut off */
    size_t rows, columns;      /* what is left; at least 1 each */
    const int8_t *x;           /* its first pixel */
    size_t x_step, x_row;      /* bytes from column to column and from row to row */
} tl_pool_window;

static inline tl_pool_window tl_pool_window_at(const tl_pool *pool, const int8_t *x,
                                               int32_t out_row, int32_t out_column) {
    const int32_t row = out_row * pool->stride_h - pool->pad_top;
    const int32_t column = out_column * pool->stride_w - pool->pad_left;
    const int32_t top = row < 0 ? -row : 0, left = column < 0 ? -column : 0;
    const int32_t below = row + pool->kernel_h - pool->in_h;
    const int32_t beyond = column + pool->kernel_w - pool->in_w;
    tl_pool_window at;
    at.top = (size_t)top;
    at.left = (size_t)left;
    at.rows = (size_t)(pool->kernel_h - top - (below > 0 ? below : 0));
    at.columns = (size_t)(pool->kernel_w - left - (beyond > 0 ? beyond : 0));
    at.x_step = pool->channels;
    at.x_row = at.x_step * pool->in_w;
    at.x = x + (size_t)(row + top) * at.x_row + (size_t)(column + left) * at.x_step;
    return at;
}

#endif
