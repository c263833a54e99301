/* SPDX-License-Identifier: Apache-2.0
 *
 * exp and log in float32 from additions, multiplications and one division, so
 * that every machine that rounds as IEEE 754 says returns the same bits.  Both
 * stay within 2 units in the last place of the true value, over the whole range.
 */
#ifndef TL_MATH_H
#define TL_MATH_H

#include <stdint.h>

typedef union {
    float value;
    uint32_t bits;
} tl_float_bits;

#define TL_INFINITY_BITS 0x7f800000u
#define TL_NAN_BITS 0x7fc00000u

static inline float tl_float_of_bits(uint32_t bits) {
    tl_float_bits number = {.bits = bits};
    return number.value;
}

/* 2^n for n in [-126, 127]. */
static inline float tl_power_of_two(int32_t n) {
    return tl_float_of_bits((uint32_t)(n + 127) << 23);
}

/* exp(x) = 2^n * exp(r) with n = round(x / ln 2), so that |r| <= ln(2) / 2.  ln 2 is
 * subtracted in two parts, of which the first has 15 bits and times n is exact.
 * exp(r) is its Taylor series to the 7th power (remainder 5e-9), and the power of
 * two is applied in two halves, so that subnormal results are rounded once. */
static inline float tl_expf(float x) {
    if (!(x == x)) {
        return tl_float_of_bits(TL_NAN_BITS);
    }
    if (x > 88.8f) {
        return tl_float_of_bits(TL_INFINITY_BITS);
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    float scaled = x * 0x1.715476p+0f;
    int32_t n = (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
    float r = (x - (float)n * 0x1.62e4p-1f) - (float)n * 0x1.7f7d1cp-20f;
    float p = 0x1.a01a02p-13f;          /* 1 / 7! */
    p = p * r + 0x1.6c16c2p-10f;        /* 1 / 6! */
    p = p * r + 0x1.111112p-7f;         /* 1 / 5! */
    p = p * r + 0x1.555556p-5f;         /* 1 / 4! */
    p = p * r + 0x1.555556p-3f;         /* 1 / 3! */
    p = p * r + 0.5f;
    p = 1.0f + (r + (r * r) * p);
    int32_t half = n / 2;
    return (p * tl_power_of_two(half)) * tl_power_of_two(n - half);
}

/* log(m * 2^e) = e * ln 2 + log(1 + f), with m in [sqrt(1/2), sqrt(2)) and f = m - 1.
 * With s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - s * (f - R), where
 * R = s^2 (2/3 + 2/5 s^2 + 2/7 s^4 + 2/9 s^6): the form keeps the leading f exact.
 * log(0) = -infinity, log(negative) is not a number. */
static inline float tl_logf(float x) {
    if (!(x > 0.0f)) {
        return tl_float_of_bits(x == 0.0f ? 0x80000000u | TL_INFINITY_BITS : TL_NAN_BITS);
    }
    if (x > 0x1.fffffep+127f) {
        return x;
    }
    int32_t e = 0;
    if (x < 0x1p-126f) {
        x = x * 0x1p23f;
        e = -23;
    }
    tl_float_bits m = {.value = x};
    /* 0x3f3504f3 is sqrt(1/2): the exponent field then counts from there. */
    uint32_t shifted = m.bits - 0x3f3504f3u + (127u << 23);
    e += (int32_t)(shifted >> 23) - 127;
    m.bits = (shifted & 0x7fffffu) + 0x3f3504f3u;
    float f = m.value - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float series = 0x1.c71c72p-3f;      /* 2/9 */
    series = series * z + 0x1.24924ap-2f; /* 2/7 */
    series = series * z + 0x1.99999ap-2f; /* 2/5 */
    series = series * z + 0x1.555556p-1f; /* 2/3 */
    float correction = s * (f - z * series);
    float low = (float)e * 0x1.7f7d1cp-20f;
    return (float)e * 0x1.62e4p-1f + (f - (correction - low));
}

#endif
