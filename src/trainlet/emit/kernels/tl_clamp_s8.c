/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x clamped to [low, high], element by element; y may be x.  No scratch.
 */
#include "tl_dsp.h"
#include "tl_kernels.h"

void tl_clamp_s8(size_t n, int32_t low, int32_t high, const int8_t *x, int8_t *y, uint8_t *mask) {
    for (size_t i = 0; i < n; i += 8) {
        const size_t count = n - i < 8 ? n - i : 8;
        uint32_t bits = 0;
        for (size_t j = 0; j < count; j++) {
            const int32_t value = x[i + j], clamped = tl_clamp(value, low, high);
            bits |= (uint32_t)(clamped == value) << j;
            y[i + j] = (int8_t)clamped;
        }
        if (mask != NULL) {
            mask[i / 8] = (uint8_t)bits;
        }
    }
}
