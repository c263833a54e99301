/* SPDX-License-Identifier: Apache-2.0
 *
 * The bias gradient, and its update at once.
 *
 *   sum[c] = 0 + sum over pixels ascending of g[pixel][c]
 *   bias[c] = clamp(bias[c] + floor(delta + u), -limit[c], limit[c]), where
 *   delta = -(sum[c] * scale[c]) * learning_rate and u = tl_random(key, c).
 *
 * Four channels are summed at a time.  No scratch; sum must not share bytes with g.
 */
#include "tl_kernels.h"
#include "tl_random.h"

/* The sums of `count` channels (a constant: 4 or 1). */
static inline void sum_channels(size_t count, size_t pixels, size_t channels, const float *g,
                                float *sum) {
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t p = 0; p < pixels; p++) {
        for (size_t k = 0; k < count; k++) {
            s[k] += g[k];
        }
        g += channels;
    }
    for (size_t k = 0; k < count; k++) {
        sum[k] = s[k];
    }
}

void tl_channel_sum_f32(size_t pixels, size_t channels, const float *g, float *sum) {
    size_t c = 0;
    for (; c + 4 <= channels; c += 4) {
        sum_channels(4, pixels, channels, g + c, sum + c);
    }
    for (; c < channels; c++) {
        sum_channels(1, pixels, channels, g + c, sum + c);
    }
}

static inline int32_t updated(int32_t bias, float sum, const tl_sgd *sgd, int32_t limit,
                              size_t channel) {
    float delta = -(sum * sgd->scale[channel]) * sgd->learning_rate;
    float u = tl_random(sgd->key, (uint32_t)channel);
    int64_t next = (int64_t)bias + tl_stochastic_round(delta, u);
    return (int32_t)(next > limit ? limit : next < -(int64_t)limit ? -(int64_t)limit : next);
}

void tl_channel_sum_sgd_s32(size_t pixels, size_t channels, const tl_sgd *sgd,
                            const int32_t *limit, const float *g, int32_t *bias) {
    for (size_t c = 0; c < channels; c += 4) {
        float sum[4];
        size_t count = channels - c < 4 ? channels - c : 4;
        if (count == 4) {
            sum_channels(4, pixels, channels, g + c, sum);
        } else {
            for (size_t k = 0; k < count; k++) {
                sum_channels(1, pixels, channels, g + c + k, sum + k);
            }
        }
        for (size_t k = 0; k < count; k++) {
            bias[c + k] = updated(bias[c + k], sum[k], sgd, limit[c + k], c + k);
        }
    }
}
