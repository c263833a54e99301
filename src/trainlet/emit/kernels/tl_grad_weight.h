/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pointwise and the general weight gradient share.  A block of the gradient,
 * four input channels times four output channels under one tap, is
 *
 *   sum[o][i] = 0 + sum over output pixels p ascending of g[p][o] * x[p][i]
 *
 * with x already as float in scratch, its zero point subtracted, 0 in the padding.  The
 * pixels come in runs of at most TL_RUN, so that scratch stays small on large maps; between
 * runs the sums rest in scratch.
 */
#ifndef TL_GRAD_WEIGHT_H
#define TL_GRAD_WEIGHT_H

#include "tl_kernels.h"
#include "tl_random.h"
#include "tl_weight_pairs.h"

#define TL_BLOCK 4
#define TL_RUN 64

/* Before a loop of few turns: unrolling it costs more than it saves. */
#define TL_ROLLED _Pragma("GCC unroll 1")
/* A function whose loop needs all registers for itself. */
#define TL_APART static __attribute__((noinline))

/* The gradient of one group, and what becomes of it: it is stored where gw is not NULL,
 * else it updates `kept`. */
typedef struct {
    size_t pixels;          /* of the output map */
    size_t out, in, taps;   /* output channels and kept channels of the group */
    size_t channels;        /* output channels of the map */
    size_t first;           /* the group's first output channel */
    float *gw;              /* of the whole layer */
    const tl_sgd *sgd;
    int8_t *kept;           /* of the group */
    float *x;               /* [TL_RUN][TL_BLOCK]: the values of a run */
    float *sums;            /* [out][TL_BLOCK], or one block where there is one run */
} tl_weight_grad;

/* Four input channels, from `first` on (`count` of them exist), under one tap. */
typedef struct {
    size_t first, count, tap;
} tl_weight_block;

/* Places the two parts of scratch; its size is
 *   16 * pixels + 64 bytes where pixels <= TL_RUN, else
 *   16 * TL_RUN + 16 * (out rounded up to a multiple of 4) bytes. */
static inline void tl_place_scratch(tl_weight_grad *job, float *scratch) {
    job->x = scratch;
    job->sums = scratch + TL_BLOCK * (job->pixels < TL_RUN ? job->pixels : TL_RUN);
}

/* s[o][i] += the product of one pixel. */
static inline __attribute__((always_inline)) void
tl_correlate_one(size_t out, const float *g, const float *x, float s[TL_BLOCK][TL_BLOCK]) {
    for (size_t o = 0; o < out; o++) {
        float value = g[o];
        for (size_t i = 0; i < TL_BLOCK; i++) {
            s[o][i] += value * x[i];
        }
    }
}

/* sum[o][i] (from 0 where `fresh`) += over `pixels` of x and g, for `out` (a constant: 4 or 1)
 * output channels; g's pixels lie `step` floats apart. */
static inline __attribute__((always_inline)) void tl_correlate(size_t out, size_t pixels,
                                                               const float *g, size_t step,
                                                               const float *x, int fresh,
                                                               float *sum) {
    float s[TL_BLOCK][TL_BLOCK];
    for (size_t o = 0; o < out; o++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            s[o][i] = fresh ? 0.0f : sum[o * TL_BLOCK + i];
        }
    }
    TL_ROLLED
    for (; pixels >= 4; pixels -= 4) {
        tl_correlate_one(out, g, x, s);
        tl_correlate_one(out, g + step, x + TL_BLOCK, s);
        g += 2 * step;
        tl_correlate_one(out, g, x + 2 * TL_BLOCK, s);
        tl_correlate_one(out, g + step, x + 3 * TL_BLOCK, s);
        g += 2 * step;
        x += 4 * TL_BLOCK;
    }
    TL_ROLLED
    for (; pixels > 0; pixels--, g += step, x += TL_BLOCK) {
        tl_correlate_one(out, g, x, s);
    }
    for (size_t o = 0; o < out; o++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            sum[o * TL_BLOCK + i] = s[o][i];
        }
    }
}

TL_APART void tl_correlate_four(size_t pixels, const float *g, size_t step, const float *x,
                                int fresh, float *sum) {
    tl_correlate(TL_BLOCK, pixels, g, step, x, fresh, sum);
}

TL_APART void tl_correlate_single(size_t pixels, const float *g, size_t step, const float *x,
                                  int fresh, float *sum) {
    tl_correlate(1, pixels, g, step, x, fresh, sum);
}

/* The finished sums of `rows` output channels from `o` on are stored. */
TL_APART void tl_store(const tl_weight_grad *job, const tl_weight_block *block, size_t o,
                     size_t rows, const float *sum) {
    size_t taps = job->taps, count = block->count;
    float *gw = job->gw + ((job->first + o) * job->in + block->first) * taps + block->tap;
    for (size_t k = 0; k < rows; k++, gw += job->in * taps, sum += TL_BLOCK) {
        TL_ROLLED
        for (size_t i = 0; i < count; i++) {
            gw[i * taps] = sum[i];
        }
    }
}

/* The finished sums of `rows` output channels from `o` on update the weights. */
TL_APART void tl_apply(const tl_weight_grad *job, const tl_weight_block *block, size_t o,
                     size_t rows, const float *sum) {
    size_t taps = job->taps, count = block->count;
    size_t column = block->tap * job->in + block->first;
    size_t quads = tl_pairs_quads(taps * job->in);
    size_t channel = job->first + o;
    uint32_t row_step = (uint32_t)(job->in * taps), step = (uint32_t)taps;
    uint32_t row = (uint32_t)channel * row_step + (uint32_t)(block->first * taps + block->tap);
    float rate = job->sgd->learning_rate;
    uint32_t key = job->sgd->key;
    const float *scale = job->sgd->scale + channel;
    int8_t *kept = job->kept;
    for (size_t end = o + rows; o < end; o++, row += row_step) {
        int8_t *weights = kept + tl_pairs_index(o, 0, quads);
        float own = *scale++;
        uint32_t element = row;
        TL_ROLLED
        for (size_t i = 0; i < count; i++, element += step) {
            int32_t change = tl_sgd_step(*sum++, own, rate, key, element);
            if (change != 0) {
                int8_t *weight = weights + tl_pairs_index(0, column + i, quads);
                *weight = tl_saturate(*weight, change);
            }
        }
        sum += TL_BLOCK - count;
    }
}

/* Adds the `n` pixels from `start` on, whose x lies in job->x, to the sums of a block with all
 * output channels; g is the group's first channel of the map. */
static inline void tl_add_run(const tl_weight_grad *job, const tl_weight_block *block,
                              size_t start, size_t n, const float *g) {
    g += start * job->channels;
    for (size_t o = 0; o < job->out;) {
        float *sum = job->sums + (job->pixels > TL_RUN ? o * TL_BLOCK : 0);
        size_t rows = job->out - o < TL_BLOCK ? 1 : TL_BLOCK;
        if (rows == TL_BLOCK) {
            tl_correlate_four(n, g + o, job->channels, job->x, start == 0, sum);
        } else {
            tl_correlate_single(n, g + o, job->channels, job->x, start == 0, sum);
        }
        if (start + n == job->pixels) {
            if (job->gw) {
                tl_store(job, block, o, rows, sum);
            } else {
                tl_apply(job, block, o, rows, sum);
            }
        }
        o += rows;
    }
}

#endif
