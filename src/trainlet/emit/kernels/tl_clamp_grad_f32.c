/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward through clamp and requantization: g = mask ? gy * scale[channel] : 0, where
 * the zero is positive whatever gy is.  A NULL mask passes everything.  No scratch;
 * g may be gy.  Where the channels fill whole bytes of the mask, eight elements are
 * handled for each byte.
 */
#include "tl_kernels.h"

static inline float passed(uint32_t bit, float value) {
    return bit ? value : 0.0f;
}

static void whole_bytes(size_t pixels, size_t channels, const float *scale, const uint8_t *mask,
                        const float *gy, float *g) {
    for (size_t p = 0; p < pixels; p++) {
        for (size_t c = 0; c < channels; c += 8) {
            uint32_t bits = *mask++;
            for (size_t i = 0; i < 8; i++) {
                g[i] = passed(bits >> i & 1u, gy[i] * scale[c + i]);
            }
            g += 8;
            gy += 8;
        }
    }
}

void tl_clamp_grad_f32(size_t pixels, size_t channels, const float *scale, const uint8_t *mask,
                       const float *gy, float *g) {
    if (mask && (channels & 7u) == 0) {
        whole_bytes(pixels, channels, scale, mask, gy, g);
        return;
    }
    size_t element = 0;
    for (size_t p = 0; p < pixels; p++) {
        for (size_t c = 0; c < channels; c++, element++) {
            uint32_t bit = mask ? (uint32_t)mask[element >> 3] >> (element & 7u) & 1u : 1u;
            g[element] = passed(bit, gy[element] * scale[c]);
        }
    }
}
