/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward through a clamp with one scale: g = mask ? gy * scale : 0, where the zero is
 * positive whatever gy is.  A NULL mask passes everything.  No scratch; g may be gy.
 */
#include "tl_kernels.h"

void tl_scale_grad_f32(size_t n, float scale, const uint8_t *mask, const float *gy, float *g) {
    if (!mask) {
        for (size_t i = 0; i < n; i++) {
            g[i] = gy[i] * scale;
        }
        return;
    }
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint32_t bits = mask[i >> 3];
        for (size_t k = 0; k < 8; k++) {
            float value = gy[i + k] * scale;
            g[i + k] = bits >> k & 1u ? value : 0.0f;
        }
    }
    for (; i < n; i++) {
        float value = gy[i] * scale;
        uint32_t bits = mask[i >> 3];
        g[i] = bits >> (i & 7u) & 1u ? value : 0.0f;
    }
}
