/* SPDX-License-Identifier: Apache-2.0
 *
 * The multiply core of the pointwise and the general convolution: a tile of
 * four pixels against two output channels at a time.
 *
 * Weights lie in the layout `pairs`: 8 bytes for two output channels o0, o1
 * and a quad of k,
 *     o0 k0, o1 k0, o0 k2, o1 k2, o0 k1, o1 k1, o0 k3, o1 k3,
 * so that sign-extending the even bytes of a word gives o0's pair of weights
 * and the odd bytes o1's.  One pair of weights meets four pixels, one pair of
 * activations two channels; with eight sums that is the largest tile which
 * fourteen registers hold.
 *
 * The activations were widened to 16 bits (less the zero point) into scratch,
 * 16 halves a quad.  With the DSP instructions a quad is eight words,
 *     px0 (k0,k2), px1 (k0,k2), px2, px3, px0 (k1,k3), px1 (k1,k3), px2, px3;
 * without them each pixel has a row of its own, every quad of it in the order
 * k0, k2, k1, k3 of the weights, so that a loop over k is a plain dot product.
 *
 * k runs over the kept segment, padded to a multiple of 4 by zero weights,
 * then over the rest.  The sums are exact, so the split changes nothing.
 */
#ifndef TL_MATMUL_H
#define TL_MATMUL_H

#include "tl_dsp.h"
#include "tl_kernels.h"

/* Halves of scratch that a quad fills. */
#define TL_QUAD_HALVES (4 * TL_TILE)

/* The weights of one group, and how many quads of k each segment has; NULL where none. */
typedef struct {
    const int8_t *kept, *rest;
    size_t kept_quads, rest_quads;
} tl_segments;

/* Where one tile's results go. */
typedef struct {
    int8_t *y;     /* the tile's first pixel */
    size_t pixels; /* 1..TL_TILE */
    uint8_t *mask; /* of the whole map, cleared; or NULL */
    size_t bit;    /* y's place in the mask */
} tl_target;

/* Widens one quad of one pixel, bytes k0..k3 of `word`, into lane `pixel` of
 * quad `quad`, of `quads` in all. */
TL_INLINE void tl_widen_quad(int32_t word, int32_t minus_zero, int16_t *scratch, size_t quads,
                             size_t quad, size_t pixel) {
#if TL_USE_DSP
    (void)quads;
    tl_word *x = (tl_word *)scratch + 8 * quad + pixel;
    x[0] = tl_sxtab16(minus_zero, word);
    x[TL_TILE] = tl_sxtab16_ror8(minus_zero, word);
#else
    int16_t *x = scratch + 4 * (quads * pixel + quad);
    int16_t offset = (int16_t)minus_zero;
    x[0] = (int16_t)((int8_t)word + offset);
    x[1] = (int16_t)((int8_t)(word >> 16) + offset);
    x[2] = (int16_t)((int8_t)(word >> 8) + offset);
    x[3] = (int16_t)((int8_t)(word >> 24) + offset);
#endif
}

/* The last n < 4 bytes of a segment as a word; the weights over the padding are zeros. */
TL_INLINE int32_t tl_load_tail(const int8_t *x, size_t n) {
    uint32_t word = 0;
    for (size_t i = 0; i < n; i++) {
        word |= (uint32_t)(uint8_t)x[i] << (8 * i);
    }
    return (int32_t)word;
}

/* Stores the sums of channels `channel` .. + channels (1 or 2) of the tile: any mode. */
static __attribute__((noinline)) void tl_store_tile(const tl_conv *conv, const tl_target *target,
                                                    size_t channel, size_t channels,
                                                    const int32_t sum[2 * TL_TILE]) {
    const int32_t zero = conv->out_zero, low = conv->clamp_min, high = conv->clamp_max;
    const size_t out_c = conv->out_c, pixels = target->pixels, other = channel + channels - 1;
    const int32_t m0 = conv->multiplier[channel], m1 = conv->multiplier[other];
    int32_t value[2 * TL_TILE];
    if (conv->shift == NULL) {
        for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
            value[2 * pixel] = tl_scale_fast(sum[2 * pixel], m0, zero);
            value[2 * pixel + 1] = tl_scale_fast(sum[2 * pixel + 1], m1, zero);
        }
    } else {
        const int32_t s0 = conv->shift[channel], s1 = conv->shift[other];
        for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
            value[2 * pixel] = tl_scale_exact(sum[2 * pixel], m0, s0) + zero;
            value[2 * pixel + 1] = tl_scale_exact(sum[2 * pixel + 1], m1, s1) + zero;
        }
    }
    int8_t *y = target->y + channel;
    size_t bit = target->bit + channel;
    for (size_t pixel = 0; pixel < pixels; pixel++, y += out_c, bit += out_c) {
        uint32_t bits = 0;
        for (size_t i = 0; i < channels; i++) {
            const int32_t clamped = tl_clamp(value[2 * pixel + i], low, high);
            bits |= (uint32_t)(clamped == value[2 * pixel + i]) << i;
            y[i] = (int8_t)clamped;
        }
        if (target->mask != NULL) {
            tl_mask_set(target->mask, bit, bits);
        }
    }
}

#if TL_USE_DSP

/* The weights still to come of a segment, and its quads for each pair of output channels. */
typedef struct {
    const tl_word *w;
    size_t quads;
} tl_run;

#if TL_USE_ASM

/* One word of weights against four words of activations: 13 instructions, 16 products. */
#define TL_HALF_QUAD                                                                              \
    "ldr    %[p], [%[w]], #4\n\t"                                                                 \
    "sxtb16 %[u], %[p]\n\t"                                                                       \
    "sxtb16 %[v], %[p], ror #8\n\t"                                                               \
    "ldrd   %[p], %[q], [%[x]], #8\n\t"                                                           \
    "smlad  %[s0], %[p], %[u], %[s0]\n\t"                                                         \
    "smlad  %[s1], %[p], %[v], %[s1]\n\t"                                                         \
    "smlad  %[s2], %[q], %[u], %[s2]\n\t"                                                         \
    "smlad  %[s3], %[q], %[v], %[s3]\n\t"                                                         \
    "ldrd   %[p], %[q], [%[x]], #8\n\t"                                                           \
    "smlad  %[s4], %[p], %[u], %[s4]\n\t"                                                         \
    "smlad  %[s5], %[p], %[v], %[s5]\n\t"                                                         \
    "smlad  %[s6], %[q], %[u], %[s6]\n\t"                                                         \
    "smlad  %[s7], %[q], %[v], %[s7]\n\t"

/* All fourteen registers: eight sums, two pointers, four to work in.  The end of x waits on the
 * stack, which nothing else here touches.  Two quads a round; an odd number of quads enters in
 * the middle.  At least one quad; moves x and the run's weights to their ends. */
TL_INLINE void tl_multiply_segment(const tl_word **from, tl_run *run, int32_t sum[2 * TL_TILE]) {
    const tl_word *x = *from, *w = run->w;
    const size_t quads = run->quads;
    int32_t p = (int32_t)(intptr_t)(x + 8 * quads), q, u, v;
    __asm__ volatile("str    %[p], [sp, #-4]!\n\t"
                     "subs   %[p], %[p], %[x]\n\t"
                     "tst    %[p], #32\n\t"
                     "bne    2f\n"
                     "1:\n\t" TL_HALF_QUAD TL_HALF_QUAD
                     "2:\n\t" TL_HALF_QUAD TL_HALF_QUAD
                     "ldr    %[p], [sp]\n\t"
                     "cmp    %[x], %[p]\n\t"
                     "bne    1b\n\t"
                     "add    sp, sp, #4\n"
                     : [s0] "+r"(sum[0]), [s1] "+r"(sum[1]), [s2] "+r"(sum[2]), [s3] "+r"(sum[3]),
                       [s4] "+r"(sum[4]), [s5] "+r"(sum[5]), [s6] "+r"(sum[6]), [s7] "+r"(sum[7]),
                       [x] "+r"(x), [w] "+r"(w), [p] "+r"(p), [q] "=&r"(q), [u] "=&r"(u),
                       [v] "=&r"(v)
                     :
                     : "cc", "memory");
    *from = x;
    run->w = w;
}

#else

/* Half a quad: one word of weights, four words of activations, 16 products. */
TL_INLINE void tl_multiply_word(const tl_word *x, int32_t w, int32_t sum[2 * TL_TILE]) {
    int32_t w0 = tl_sxtb16(w), w1 = tl_sxtb16_ror8(w);
    for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
        sum[2 * pixel] = tl_smlad(x[pixel], w0, sum[2 * pixel]);
        sum[2 * pixel + 1] = tl_smlad(x[pixel], w1, sum[2 * pixel + 1]);
    }
}

/* At least one quad; moves x and the run's weights to their ends. */
TL_INLINE void tl_multiply_segment(const tl_word **from, tl_run *run, int32_t sum[2 * TL_TILE]) {
    const tl_word *x = *from, *w = run->w;
    for (size_t quad = 0; quad < run->quads; quad++, x += 8, w += 2) {
        tl_multiply_word(x, w[0], sum);
        tl_multiply_word(x + 4, w[1], sum);
    }
    *from = x;
    run->w = w;
}

#endif

/* How the results of a full tile are stored. */
enum { TL_PLAIN, TL_MASKED, TL_NARROW };

/* Stores two channels of a full tile at `to`, fast requantization.  TL_PLAIN and TL_MASKED clamp
 * to the whole range of int8, TL_NARROW to [low, high].  The mask's bits enter at the top of the
 * four bytes of `lanes`, one byte a pixel, and push the earlier ones down. */
TL_INLINE uint32_t tl_store_pair(int how, const tl_conv *conv, int8_t *to, size_t channel,
                                 const int32_t sum[2 * TL_TILE], uint32_t lanes) {
    const size_t out_c = conv->out_c;
    const int32_t m[2] = {conv->multiplier[channel], conv->multiplier[channel + 1]};
    const int32_t zero = conv->out_zero, low = conv->clamp_min, high = conv->clamp_max;
    lanes >>= 2;
#pragma GCC unroll 4
    for (size_t pixel = 0; pixel < TL_TILE; pixel++, to += out_c) {
#if TL_USE_ASM
        __asm__("" : "+r"(to)); /* keeps one pointer, rather than eight sums of two */
#endif
#pragma GCC unroll 2
        for (size_t i = 0; i < 2; i++) {
            const int32_t value = tl_scale_fast(sum[2 * pixel + i], m[i], zero);
            const int32_t clamped =
                how == TL_NARROW ? tl_clamp(value, low, high) : tl_saturate8(value);
            to[i] = (int8_t)clamped;
            if (how != TL_PLAIN && clamped == value) {
                lanes |= (uint32_t)0x40 << (8 * pixel + i);
            }
        }
    }
    return lanes;
}

/* Writes the `pairs` latest pairs of bits of every lane to the mask, from channel `channel`. */
static __attribute__((noinline)) void tl_store_lanes(const tl_target *target, size_t out_c,
                                                     size_t channel, size_t pairs,
                                                     uint32_t lanes) {
    for (size_t pixel = 0, bit = target->bit + channel; pixel < TL_TILE; pixel++, bit += out_c) {
        tl_mask_set(target->mask, bit, (lanes >> (8 * pixel) & 0xFFu) >> (8 - 2 * pairs));
    }
}

/* Sums of one pair of output channels over the segments: one run or two. */
TL_INLINE void tl_multiply_runs(const int16_t *scratch, tl_run *run, const tl_run *end,
                                int32_t b0, int32_t b1, int32_t sum[2 * TL_TILE]) {
    const tl_word *x = (const tl_word *)scratch;
    for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
        sum[2 * pixel] = b0;
        sum[2 * pixel + 1] = b1;
    }
    tl_multiply_segment(&x, run, sum);
    if (run + 1 != end) {
        tl_multiply_segment(&x, run + 1, sum);
    }
}

/* The non-empty segments as runs that begin at pair `pair`; gives how many there are. */
TL_INLINE size_t tl_runs(const tl_segments *weights, size_t pair, tl_run runs[2]) {
    size_t count = 0;
    if (weights->kept_quads > 0) {
        const tl_word *w = (const tl_word *)weights->kept + 2 * pair * weights->kept_quads;
        runs[count++] = (tl_run){w, weights->kept_quads};
    }
    if (weights->rest_quads > 0) {
        const tl_word *w = (const tl_word *)weights->rest + 2 * pair * weights->rest_quads;
        runs[count++] = (tl_run){w, weights->rest_quads};
    }
    return count;
}

/* Channels first .. last, an even number, of a full tile; fast requantization, the whole range
 * of int8 and no mask. */
static __attribute__((noinline)) void tl_multiply_plain(const tl_conv *conv, const int16_t *scratch,
                                                        const tl_segments *weights,
                                                        const int32_t *bias, int8_t *y,
                                                        size_t first, size_t last) {
    tl_run runs[2];
    const tl_run *end = runs + tl_runs(weights, 0, runs);
    for (size_t channel = first; channel < last; channel += 2) {
        int32_t sum[2 * TL_TILE];
        tl_multiply_runs(scratch, runs, end, bias[channel], bias[channel + 1], sum);
        tl_store_pair(TL_PLAIN, conv, y + channel, channel, sum, 0);
    }
}

/* The same with a mask or a narrower range. */
static __attribute__((noinline)) void tl_multiply_checked(const tl_conv *conv,
                                                          const int16_t *scratch,
                                                          const tl_segments *weights,
                                                          const int32_t *bias,
                                                          const tl_target *target, size_t first,
                                                          size_t last) {
    tl_run runs[2];
    const tl_run *end = runs + tl_runs(weights, 0, runs);
    const int narrow = conv->clamp_min != -128 || conv->clamp_max != 127;
    uint32_t lanes = 0;
    size_t pairs = 0;
    for (size_t channel = first; channel < last; channel += 2) {
        int32_t sum[2 * TL_TILE];
        tl_multiply_runs(scratch, runs, end, bias[channel], bias[channel + 1], sum);
        int8_t *to = target->y + channel;
        lanes = narrow ? tl_store_pair(TL_NARROW, conv, to, channel, sum, lanes)
                       : tl_store_pair(TL_MASKED, conv, to, channel, sum, lanes);
        pairs++;
        if (target->mask != NULL && (pairs == 4 || channel + 2 >= last)) {
            tl_store_lanes(target, conv->out_c, channel + 2 - 2 * pairs, pairs, lanes);
            pairs = 0;
            lanes = 0;
        }
    }
}

/* One pair's sums, or those of a last channel alone. */
static __attribute__((noinline)) void tl_multiply_pair(const int16_t *scratch,
                                                       const tl_segments *weights, size_t pair,
                                                       int32_t b0, int32_t b1,
                                                       int32_t result[2 * TL_TILE]) {
    tl_run runs[2];
    const tl_run *end = runs + tl_runs(weights, pair, runs);
    int32_t sum[2 * TL_TILE];
    tl_multiply_runs(scratch, runs, end, b0, b1, sum);
    for (size_t i = 0; i < 2 * TL_TILE; i++) {
        result[i] = sum[i];
    }
}

#else

TL_INLINE void tl_multiply_segment(const int16_t *scratch, size_t quads, const int8_t *weights,
                                   size_t count, int32_t sum[2 * TL_TILE]) {
    const int16_t *x0 = scratch, *x1 = x0 + 4 * quads;
    const int16_t *x2 = x1 + 4 * quads, *x3 = x2 + 4 * quads;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (size_t k = 0; k < 4 * count; k++) {
        int32_t w0 = weights[2 * k], w1 = weights[2 * k + 1];
        s0 += x0[k] * w0;
        s1 += x0[k] * w1;
        s2 += x1[k] * w0;
        s3 += x1[k] * w1;
        s4 += x2[k] * w0;
        s5 += x2[k] * w1;
        s6 += x3[k] * w0;
        s7 += x3[k] * w1;
    }
    sum[0] += s0;
    sum[1] += s1;
    sum[2] += s2;
    sum[3] += s3;
    sum[4] += s4;
    sum[5] += s5;
    sum[6] += s6;
    sum[7] += s7;
}

TL_INLINE void tl_multiply_pair(const int16_t *scratch, const tl_segments *weights, size_t pair,
                                int32_t b0, int32_t b1, int32_t sum[2 * TL_TILE]) {
    const size_t kept_quads = weights->kept_quads, rest_quads = weights->rest_quads;
    const size_t quads = kept_quads + rest_quads;
    for (size_t pixel = 0; pixel < TL_TILE; pixel++) {
        sum[2 * pixel] = b0;
        sum[2 * pixel + 1] = b1;
    }
    if (kept_quads > 0) {
        tl_multiply_segment(scratch, quads, weights->kept + 8 * pair * kept_quads, kept_quads, sum);
    }
    if (rest_quads > 0) {
        tl_multiply_segment(scratch + 4 * kept_quads, quads,
                            weights->rest + 8 * pair * rest_quads, rest_quads, sum);
    }
}

#endif

/* Multiplies one group's widened tile by its weights and stores output channels first ..
 * first + count, two at a time. */
static inline void tl_multiply_tile(const tl_conv *conv, const int16_t *scratch,
                                    const tl_segments *weights, const int32_t *bias,
                                    const tl_target *target, size_t first, size_t count) {
    size_t done = 0;
#if TL_USE_DSP
    if (target->pixels == TL_TILE && conv->shift == NULL) {
        done = count & ~(size_t)1;
        if (target->mask == NULL && conv->clamp_min == -128 && conv->clamp_max == 127) {
            tl_multiply_plain(conv, scratch, weights, bias, target->y, first, first + done);
        } else {
            tl_multiply_checked(conv, scratch, weights, bias, target, first, first + done);
        }
    }
#endif
    for (; done < count; done += 2) {
        const size_t channels = count - done > 1 ? 2 : 1, channel = first + done;
        int32_t sum[2 * TL_TILE];
        tl_multiply_pair(scratch, weights, done / 2, bias[channel], bias[channel + channels - 1],
                         sum);
        tl_store_tile(conv, target, channel, channels, sum);
    }
}

#endif
