/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions under the int8 kernels.
 *
 * Cortex-M4 and up can sign-extend two bytes of a word to two 16-bit halves
 * (SXTB16) and multiply halves into a 32-bit sum (SMLAD, SMLABB, SMLATT).  The
 * names below are those instructions, with the same result bit for bit in
 * plain C where the machine lacks them.  TL_USE_DSP says which of its two inner
 * loops a kernel compiles: the one written for these instructions, or a plain
 * one, shaped so that a compiler can vectorize it.  Both compute exact integer
 * sums, hence the same bits.  Setting TL_USE_DSP to 1 on a machine without the
 * instructions is how the first loop is tested there.
 *
 * Little-endian, and >> of a negative number is an arithmetic shift: so on
 * every compiler that targets these machines.  Nothing here shifts a negative
 * number to the left, and words are read unaligned only through tl_load4.
 */
#ifndef TL_DSP_H
#define TL_DSP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#endif

#ifndef TL_USE_DSP
#if defined(__ARM_FEATURE_DSP)
#define TL_USE_DSP 1
#else
#define TL_USE_DSP 0
#endif
#endif

/* Whether the innermost loops may be assembly text.  They want all fourteen registers, so the
 * frame pointer must be omitted; -DTL_USE_ASM=0 gives the same loops through intrinsics. */
#ifndef TL_USE_ASM
#if defined(__ARM_FEATURE_DSP) && defined(__OPTIMIZE__)
#define TL_USE_ASM 1
#else
#define TL_USE_ASM 0
#endif
#endif

#define TL_INLINE static inline __attribute__((always_inline))

/* A word over memory that other code sees as bytes or as halves; 4-byte aligned. */
typedef int32_t __attribute__((may_alias)) tl_word;

/* Four bytes from any address, in one load where the machine can. */
TL_INLINE int32_t tl_load4(const int8_t *p) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    return word;
}

TL_INLINE void tl_store4(int8_t *p, int32_t word) {
    __builtin_memcpy(p, &word, 4);
}

/* Halves `low` and `high` as one word. */
TL_INLINE int32_t tl_pack(int32_t low, int32_t high) {
    return (int32_t)(((uint32_t)low & 0xFFFFu) | ((uint32_t)high << 16));
}

/* What tl_sxtab16 adds to take a zero point away. */
TL_INLINE int32_t tl_minus_zero(int32_t zero) {
    return tl_pack(-zero, -zero);
}

#if defined(__ARM_FEATURE_DSP)

/* sum + low(a) * low(b) + high(a) * high(b) */
TL_INLINE int32_t tl_smlad(int32_t a, int32_t b, int32_t sum) {
    return __smlad(a, b, sum);
}

/* sum + low(a) * low(b) */
TL_INLINE int32_t tl_smlabb(int32_t a, int32_t b, int32_t sum) {
    return __smlabb(a, b, sum);
}

/* sum + high(a) * high(b) */
TL_INLINE int32_t tl_smlatt(int32_t a, int32_t b, int32_t sum) {
    return __smlatt(a, b, sum);
}

/* Bytes 0 and 2, sign-extended to halves. */
TL_INLINE int32_t tl_sxtb16(int32_t word) {
    return __sxtb16(word);
}

/* Bytes 0 and 2, sign-extended, each added to a half of `base`. */
TL_INLINE int32_t tl_sxtab16(int32_t base, int32_t word) {
    return __sxtab16(base, word);
}

/* The same with bytes 1 and 3: the word rotated right by 8 first. */
TL_INLINE int32_t tl_sxtb16_ror8(int32_t word) {
    return __sxtb16((int32_t)__ror((uint32_t)word, 8));
}

TL_INLINE int32_t tl_sxtab16_ror8(int32_t base, int32_t word) {
    return __sxtab16(base, (int32_t)__ror((uint32_t)word, 8));
}

/* zero + floor((acc * multiplier + 2^31) / 2^32) */
TL_INLINE int32_t tl_scale_fast(int32_t acc, int32_t multiplier, int32_t zero) {
    int32_t result;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(acc), "r"(multiplier), "r"(zero));
    return result;
}

/* Clamped to [-128, 127]. */
TL_INLINE int32_t tl_saturate8(int32_t value) {
    return __ssat(value, 8);
}

#else

TL_INLINE int32_t tl_smlabb(int32_t a, int32_t b, int32_t sum) {
    return sum + (int16_t)a * (int16_t)b;
}

TL_INLINE int32_t tl_smlatt(int32_t a, int32_t b, int32_t sum) {
    return sum + (a >> 16) * (b >> 16);
}

TL_INLINE int32_t tl_smlad(int32_t a, int32_t b, int32_t sum) {
    return tl_smlatt(a, b, tl_smlabb(a, b, sum));
}

TL_INLINE int32_t tl_sxtab16(int32_t base, int32_t word) {
    return tl_pack(base + (int8_t)word, (base >> 16) + (int8_t)(word >> 16));
}

TL_INLINE int32_t tl_sxtab16_ror8(int32_t base, int32_t word) {
    return tl_pack(base + (int8_t)(word >> 8), (base >> 16) + (int8_t)(word >> 24));
}

TL_INLINE int32_t tl_sxtb16(int32_t word) {
    return tl_sxtab16(0, word);
}

TL_INLINE int32_t tl_sxtb16_ror8(int32_t word) {
    return tl_sxtab16_ror8(0, word);
}

TL_INLINE int32_t tl_scale_fast(int32_t acc, int32_t multiplier, int32_t zero) {
    int64_t product = (int64_t)acc * multiplier;
    return zero + (int32_t)((product + ((int64_t)1 << 31)) >> 32);
}

TL_INLINE int32_t tl_saturate8(int32_t value) {
    return value < -128 ? -128 : value > 127 ? 127 : value;
}

#endif

TL_INLINE int32_t tl_clamp(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* TFLite's SaturatingRoundingDoublingHighMul for a multiplier that is not
 * negative: floor((a * multiplier + 2^30) / 2^31). */
TL_INLINE int32_t tl_doubling_high_multiply(int32_t a, int32_t multiplier) {
    int64_t product = (int64_t)a * multiplier;
    return (int32_t)((product + ((int64_t)1 << 30)) >> 31);
}

/* TFLite's RoundingDivideByPOT: value / 2^exponent, halves away from zero; exponent in [0, 31]. */
TL_INLINE int32_t tl_rounding_shift(int32_t value, int32_t exponent) {
    uint32_t below = ((uint32_t)1 << exponent) - 1u;
    uint32_t remainder = (uint32_t)value & below;
    uint32_t threshold = (below >> 1) + (value < 0 ? 1u : 0u);
    return (value >> exponent) + (remainder > threshold ? 1 : 0);
}

/* TFLite's MultiplyByQuantizedMultiplier, double rounding; shift in [-31, 30].
 * acc * 2^shift must fit in 32 bits where shift is positive (it wraps otherwise). */
TL_INLINE int32_t tl_scale_exact(int32_t acc, int32_t multiplier, int32_t shift) {
    int32_t left = shift > 0 ? shift : 0;
    int32_t right = shift > 0 ? 0 : -shift;
    int32_t wide = (int32_t)((uint32_t)acc << left);
    return tl_rounding_shift(tl_doubling_high_multiply(wide, multiplier), right);
}

/* A convolution's sum for output channel `channel` at the output's scale, before the clamp;
 * multiplier, shift and zero are those of tl_conv. */
TL_INLINE int32_t tl_requantize(int32_t acc, const int32_t *multiplier, const int8_t *shift,
                                size_t channel, int32_t zero) {
    if (shift == NULL) {
        return tl_scale_fast(acc, multiplier[channel], zero);
    }
    return tl_scale_exact(acc, multiplier[channel], shift[channel]) + zero;
}

/* Clears the bits of n elements. */
TL_INLINE void tl_mask_clear(uint8_t *mask, size_t n) {
    for (size_t i = 0; i < (n + 7) / 8; i++) {
        mask[i] = 0;
    }
}

/* Sets bit + i for each bit i that is set in `bits` (at most 8 bits). */
TL_INLINE void tl_mask_set(uint8_t *mask, size_t bit, uint32_t bits) {
    uint32_t spread = bits << (bit & 7u);
    uint8_t *byte = mask + (bit >> 3);
    byte[0] = (uint8_t)(byte[0] | (spread & 0xFFu));
    if (spread > 0xFFu) {
        byte[1] = (uint8_t)(byte[1] | (spread >> 8));
    }
}

#endif
