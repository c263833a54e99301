/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution (groups == in_c == out_c), int8 in and out.
 *
 * Pixels one at a time in ascending order; within a pixel, blocks of
 * neighbouring channels.  Taps outside the map are left out, so padding costs
 * nothing.  With the DSP instructions a block is four channels: a word of
 * activations and a word of weights are each spread to two words of halves,
 * channels (0, 2) and (1, 3), whose low and high halves are multiplied apart.
 *
 * Weights are in the layout `taps`.  When some channels are kept, the kept
 * weights lie apart, and `rest` (all channels wide) has zeros in their place.
 * Then each pixel's kept channels are computed first, one by one, into
 * scratch; the blocks follow with the weights of `rest`; and the kept results
 * are stored over what the blocks wrote for their channels.
 *
 * A block is stored as soon as it is done, when later blocks of its window are
 * still unread: with an output that overlaps its input, the bytes of pixels
 * 0..p must end where the first byte of any window >= p begins, or before.
 *
 * scratch: kept halves; none where all channels are kept and order is NULL,
 * since `kept` is then a full set of weights.
 */
#include "tl_depthwise.h"

#define BLOCK 4  /* channels that are computed together */
#define CHUNK 32 /* channels whose sums wait for a mask or for another mode; whole blocks */

#if TL_USE_ASM

/* Sums of channels 0 .. n, whole blocks, of a pixel. */
static void sum_blocks(const tl_window *at, const int8_t *x, const int8_t *w, const int32_t *bias,
                       int32_t zero, size_t n, int32_t *sum) {
    tl_pixel pixel = {
        .x = x,
        .w = w,
        .x_next = at->x_row,
        .w_next = at->w_row,
        .bias = bias,
        .y = sum,
        .rows = at->rows,
        .columns = at->columns,
        .blocks = n / BLOCK,
        .step = at->step,
        .minus_zero = tl_minus_zero(zero),
    };
    tl_depthwise_sums(&pixel);
}

/* Channels 0 .. n of `count` neighbouring pixels with windows of one shape: fast requantization,
 * the whole range, no mask. */
static void plain_blocks(const tl_conv *conv, const tl_window *at, const int8_t *w,
                         const int32_t *bias, size_t n, size_t count, int8_t *y) {
    tl_pixel pixel = {
        .x = at->x,
        .w = w,
        .x_next = at->x_row,
        .w_next = at->w_row,
        .bias = bias,
        .multiplier = conv->multiplier,
        .y = y,
        .out_zero = conv->out_zero,
        .rows = at->rows,
        .columns = at->columns,
        .blocks = n / BLOCK,
        .step = at->step,
        .minus_zero = tl_minus_zero(conv->in_zero),
    };
    tl_depthwise_results(&pixel, count, conv->stride_w * at->step);
}

#else

static void sum_blocks(const tl_window *at, const int8_t *x, const int8_t *w, const int32_t *bias,
                       int32_t zero, size_t n, int32_t *sum) {
    const size_t step = at->step;
    for (size_t i = 0; i < n; i++) {
        sum[i] = bias[i];
    }
    for (size_t row = 0; row < at->rows; row++, x += at->x_row, w += at->w_row) {
        for (size_t column = 0; column < at->columns; column++) {
            const int8_t *xt = x + column * step, *wt = w + column * step;
#if TL_USE_DSP
            const int32_t minus_zero = tl_minus_zero(zero);
            for (size_t i = 0; i < n; i += BLOCK) {
                const int32_t xw = tl_load4(xt + i), ww = tl_load4(wt + i);
                const int32_t x02 = tl_sxtab16(minus_zero, xw), w02 = tl_sxtb16(ww);
                const int32_t x13 = tl_sxtab16_ror8(minus_zero, xw), w13 = tl_sxtb16_ror8(ww);
                sum[i] = tl_smlabb(x02, w02, sum[i]);
                sum[i + 1] = tl_smlabb(x13, w13, sum[i + 1]);
                sum[i + 2] = tl_smlatt(x02, w02, sum[i + 2]);
                sum[i + 3] = tl_smlatt(x13, w13, sum[i + 3]);
            }
#else
            const int16_t offset = (int16_t)zero;
            for (size_t i = 0; i < n; i++) {
                sum[i] += (int16_t)(xt[i] - offset) * wt[i];
            }
#endif
        }
    }
}

#endif

/* Stores `count` sums at y, the first one that of channel `channel`; gives their mask bits. */
TL_INLINE uint32_t store_few(const tl_conv *conv, const int32_t *sum, size_t channel, size_t count,
                             int8_t *y) {
    const int32_t zero = conv->out_zero, low = conv->clamp_min, high = conv->clamp_max;
    uint32_t bits = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < count; i++) {
        const int32_t value =
            tl_requantize(sum[i], conv->multiplier, conv->shift, channel + i, zero);
        const int32_t clamped = tl_clamp(value, low, high);
        if (clamped == value) {
            bits |= (uint32_t)1 << i;
        }
        y[i] = (int8_t)clamped;
    }
    return bits;
}

/* Stores sums of channels channel .. channel + n of a pixel whose first channel is y[0] and bit
 * `bit`: any mode.  A known mode and a known count make the loops straight. */
static void store(const tl_conv *conv, const int32_t *sum, size_t channel, size_t n, int8_t *y,
                  uint8_t *mask, size_t bit) {
    tl_conv local = *conv;
    const int fast = local.shift == NULL;
    for (size_t count; n > 0; n -= count, channel += count, sum += count) {
        count = n < 8 ? n : 8;
        uint32_t bits;
        if (fast && count == 8) {
            local.shift = NULL;
            bits = store_few(&local, sum, channel, 8, y + channel);
        } else {
            bits = store_few(conv, sum, channel, count, y + channel);
        }
        if (mask != NULL) {
            tl_mask_set(mask, bit + channel, bits);
        }
    }
}

/* One channel's sum; the weights of a row of taps lie w_row apart, those of a tap w_step. */
static int32_t sum_channel(const tl_window *at, const int8_t *x, const int8_t *w, size_t w_row,
                           size_t w_step, int32_t zero, int32_t sum) {
    for (size_t row = 0; row < at->rows; row++, x += at->x_row, w += w_row) {
        const int8_t *xt = x, *wt = w;
        for (size_t column = 0; column < at->columns; column++, xt += at->step, wt += w_step) {
            sum += (*xt - zero) * *wt;
        }
    }
    return sum;
}

/* All channels of a pixel with one full set of weights: any mode. */
static inline void whole_pixel(const tl_conv *conv, const tl_window *at, const int8_t *weights,
                               const int32_t *bias, int8_t *y, uint8_t *mask, size_t bit) {
    const size_t channels = conv->in_c, whole = channels & ~(size_t)(BLOCK - 1);
    const int8_t *w = weights + at->first * channels;
    size_t channel = 0;
    while (channel < channels) {
        int32_t sum[CHUNK];
        const size_t left = channel < whole ? whole - channel : 1;
        const size_t n = left < CHUNK ? left : CHUNK;
        const int8_t *xc = at->x + channel, *wc = w + channel;
        if (n > 1 && at->rows > 0) {
            sum_blocks(at, xc, wc, bias + channel, conv->in_zero, n, sum);
        } else {
            for (size_t i = 0; i < n; i++) {
                sum[i] = sum_channel(at, xc + i, wc + i, at->w_row, channels, conv->in_zero,
                                     bias[channel + i]);
            }
        }
        store(conv, sum, channel, n, y, mask, bit);
        channel += n;
    }
}

/* The kept channels of a pixel into scratch: the clamped value, plus 512 where it was in range. */
static void kept_channels(const tl_conv *conv, const tl_window *at, const int8_t *weights,
                          const int32_t *bias, int16_t *scratch) {
    const size_t kept = conv->kept;
    for (size_t j = 0; j < kept; j++) {
        const size_t channel = conv->order == NULL ? j : conv->order[j];
        const int8_t *w = weights + at->first * kept + j;
        const int32_t sum = sum_channel(at, at->x + channel, w, conv->kernel_w * kept, kept,
                                        conv->in_zero, bias[channel]);
        const int32_t value =
            tl_requantize(sum, conv->multiplier, conv->shift, channel, conv->out_zero);
        const int32_t clamped = tl_clamp(value, conv->clamp_min, conv->clamp_max);
        scratch[j] = (int16_t)(clamped == value ? clamped + 512 : clamped);
    }
}

static void store_kept(const tl_conv *conv, const int16_t *scratch, int8_t *y, uint8_t *mask,
                       size_t bit) {
    for (size_t j = 0; j < conv->kept; j++) {
        const size_t channel = conv->order == NULL ? j : conv->order[j];
        const int in_range = scratch[j] >= 256;
        y[channel] = (int8_t)(in_range ? scratch[j] - 512 : scratch[j]);
        if (mask != NULL) {
            const uint32_t one = 1u << ((bit + channel) & 7u);
            uint8_t *byte = mask + ((bit + channel) >> 3);
            *byte = (uint8_t)(in_range ? *byte | one : *byte & ~one);
        }
    }
}

void tl_conv2d_depthwise_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                            const int8_t *rest, const int32_t *bias, int8_t *y, uint8_t *mask,
                            int16_t *scratch) {
    const tl_conv local = *conv; /* a store to y could change *conv, for all a compiler knows */
    const size_t channels = local.in_c;
    const int full = local.kept == channels && local.order == NULL;
    const int8_t *whole = full ? kept : rest;
    const int split = local.kept > 0 && !full;
#if TL_USE_ASM
    const int plain = !split && mask == NULL && channels % BLOCK == 0 && local.shift == NULL &&
                      local.clamp_min == -128 && local.clamp_max == 127;
#endif
    const int32_t last_row = local.in_h - local.kernel_h, last_column = local.in_w - local.kernel_w;
    tl_window at = {.x_row = channels * local.in_w, .w_row = channels * local.kernel_w};
    at.step = channels;
    size_t bit = 0;
    if (mask != NULL) {
        tl_mask_clear(mask, (size_t)local.out_h * local.out_w * channels);
    }
    for (int32_t i = 0, row = -local.pad_top; i < local.out_h; i++, row += local.stride_h) {
        const int32_t top = row < 0 ? -row : 0, below = row > last_row ? row - last_row : 0;
        const int32_t rows = local.kernel_h - top - below;
        for (int32_t j = 0, column = -local.pad_left; j < local.out_w; j++) {
            const int32_t left = column < 0 ? -column : 0;
            const int32_t beyond = column > last_column ? column - last_column : 0;
            const int32_t columns = local.kernel_w - left - beyond;
            at.rows = rows > 0 && columns > 0 ? (size_t)rows : 0;
            at.columns = (size_t)columns;
            at.first = 0;
            at.x = x;
            if (at.rows > 0) {
                at.first = (size_t)(top * local.kernel_w + left);
                at.x += (size_t)(row + top) * at.x_row + (size_t)(column + left) * channels;
            }
            if (split) {
                kept_channels(conv, &at, kept, bias, scratch);
            }
#if TL_USE_ASM
            if (plain && at.rows > 0) {
                const int32_t inside = last_column - column;
                size_t count = 1;
                if (left == 0 && inside >= 0) {
                    const size_t more = (size_t)inside / local.stride_w;
                    const size_t rest_of_row = (size_t)(local.out_w - 1 - j);
                    count += more < rest_of_row ? more : rest_of_row;
                }
                plain_blocks(&local, &at, whole + at.first * channels, bias, channels, count, y);
                j += (int32_t)count - 1;
                column += (int32_t)count * local.stride_w;
                y += count * channels;
                continue;
            }
#endif
            if (whole != NULL) {
                whole_pixel(&local, &at, whole, bias, y, mask, bit);
            }
            if (split) {
                store_kept(conv, scratch, y, mask, bit);
            }
            column += local.stride_w;
            y += channels;
            bit += channels;
        }
    }
}
