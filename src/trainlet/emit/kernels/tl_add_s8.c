/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual addition of two int8 tensors at a third's scale, in one 32-bit sum:
 *
 *     y = clamp((a * multiplier_a + b * multiplier_b + offset) >> shift)
 *
 * with an arithmetic shift; offset holds the zero points and the rounding, and
 * the multipliers are small enough that the sum fits.  Elements ascend, eight
 * at a time where the mask is wanted; y may be a or b.  No scratch.
 */
#include "tl_dsp.h"
#include "tl_kernels.h"

TL_INLINE int32_t sum_of(const tl_add *add, int8_t a, int8_t b) {
    return (a * add->multiplier_a + b * add->multiplier_b + add->offset) >> add->shift;
}

void tl_add_s8(size_t n, const tl_add *add, const int8_t *a, const int8_t *b, int8_t *y,
               uint8_t *mask) {
    const tl_add local = *add;
    const int32_t low = local.clamp_min, high = local.clamp_max;
    if (mask == NULL) {
        for (size_t i = 0; i < n; i++) {
            y[i] = (int8_t)tl_clamp(sum_of(&local, a[i], b[i]), low, high);
        }
        return;
    }
    for (size_t i = 0; i < n; i += 8) {
        const size_t count = n - i < 8 ? n - i : 8;
        uint32_t bits = 0;
        for (size_t j = 0; j < count; j++) {
            const int32_t value = sum_of(&local, a[i + j], b[i + j]);
            const int32_t clamped = tl_clamp(value, low, high);
            bits |= (uint32_t)(clamped == value) << j;
            y[i + j] = (int8_t)clamped;
        }
        mask[i / 8] = (uint8_t)bits;
    }
}
