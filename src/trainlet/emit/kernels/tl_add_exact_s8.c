/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual addition as TFLite's reference computes ADD on int8: both inputs,
 * less their zero points, are shifted left by 20 bits, brought to a common
 * scale, added, and the sum is brought to the output's scale; each of the
 * three is a doubling high multiplication and a rounding shift.  Elements
 * ascend; y may be a or b.  No scratch.
 */
#include "tl_dsp.h"
#include "tl_kernels.h"

#define LEFT_SHIFT 20

TL_INLINE int32_t sum_of(const tl_add_exact *add, int8_t a, int8_t b) {
    const int32_t wide_a = (a - add->zero_a) * (1 << LEFT_SHIFT);
    const int32_t wide_b = (b - add->zero_b) * (1 << LEFT_SHIFT);
    const int32_t sum = tl_scale_exact(wide_a, add->multiplier_a, add->shift_a) +
                        tl_scale_exact(wide_b, add->multiplier_b, add->shift_b);
    return tl_scale_exact(sum, add->multiplier_out, add->shift_out) + add->zero_out;
}

void tl_add_exact_s8(size_t n, const tl_add_exact *add, const int8_t *a, const int8_t *b,
                     int8_t *y, uint8_t *mask) {
    const tl_add_exact local = *add;
    for (size_t i = 0; i < n; i += 8) {
        const size_t count = n - i < 8 ? n - i : 8;
        uint32_t bits = 0;
        for (size_t j = 0; j < count; j++) {
            const int32_t value = sum_of(&local, a[i + j], b[i + j]);
            const int32_t clamped = tl_clamp(value, local.clamp_min, local.clamp_max);
            bits |= (uint32_t)(clamped == value) << j;
            y[i + j] = (int8_t)clamped;
        }
        if (mask != NULL) {
            mask[i / 8] = (uint8_t)bits;
        }
    }
}
