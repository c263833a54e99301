/* SPDX-License-Identifier: Apache-2.0
 *
 * The seeded generator behind stochastic rounding: a hash of (key, counter),
 * so that a number depends on the element and not on the order of the loops.
 * trainlet/ops/random.py is its exact twin.
 */
#ifndef TL_RANDOM_H
#define TL_RANDOM_H

#include <stdint.h>

/* 32 well-mixed bits (the finalizer of MurmurHash3). */
static inline uint32_t tl_mix(uint32_t h) {
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    h ^= h >> 16;
    return h;
}

/* The key of one tensor's update in one step. */
static inline uint32_t tl_key(uint32_t seed, uint32_t step, uint32_t tensor) {
    return tl_mix(tl_mix(tl_mix(seed) + step) + tensor);
}

/* Uniform in [0, 1), a multiple of 2^-24. */
static inline float tl_random(uint32_t key, uint32_t counter) {
    return (float)(tl_mix(key + counter * 0x9E3779B9u) >> 8) * 0x1p-24f;
}

/* floor(delta + u), for a delta of any size: 0 if it is not a number, and
 * within +-2^30 always.  The comparisons are those of the number's bits, which
 * take fewer instructions; the most frequent result, 0, comes first. */
static inline int32_t tl_stochastic_round(float delta, float u) {
    union {
        float value;
        uint32_t bits;
    } t = {.value = delta + u};
    if (t.bits < 0x3F800000u) { /* 0 <= t < 1 */
        return 0;
    }
    uint32_t magnitude = t.bits & 0x7FFFFFFFu;
    if (magnitude >= 0x4E800000u) { /* |t| >= 2^30, or not a number */
        int32_t limit = t.bits >> 31 ? -0x40000000 : 0x40000000;
        return magnitude > 0x7F800000u ? 0 : limit;
    }
    int32_t whole = (int32_t)t.value;
    return (float)whole > t.value ? whole - 1 : whole;
}

/* The step of one element: delta = -(gradient * scale) * learning_rate, rounded
 * stochastically. */
static inline int32_t tl_sgd_step(float gradient, float scale, float learning_rate, uint32_t key,
                                  uint32_t counter) {
    float delta = -(gradient * scale) * learning_rate;
    return tl_stochastic_round(delta, tl_random(key, counter));
}

/* The weight after a step, saturated to a symmetric int8. */
static inline int8_t tl_saturate(int8_t weight, int32_t step) {
    int32_t next = (int32_t)weight + step;
    return (int8_t)(next > 127 ? 127 : next < -127 ? -127 : next);
}

static inline int8_t tl_sgd_weight(int8_t weight, float gradient, float scale,
                                   float learning_rate, uint32_t key, uint32_t counter) {
    return tl_saturate(weight, tl_sgd_step(gradient, scale, learning_rate, key, counter));
}

#endif
