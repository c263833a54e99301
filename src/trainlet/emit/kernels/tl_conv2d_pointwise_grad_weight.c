/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight gradient of a 1x1 convolution (stride 1, no padding, one group), and its update
 * at once:
 *
 *   gw[o][i] = 0 + sum over pixels p ascending of g[p][o] * (x[p][i] - in_zero)
 *
 * x holds the kept channels alone.  Four input channels are turned to float, then meet the
 * output channels four at a time; see tl_grad_weight.h.
 *
 * Scratch, with P = in_h * in_w:
 *   P <= 64:  16 * P + 64 bytes
 *   P > 64:   1024 + 16 * (out_c rounded up to a multiple of 4) bytes
 */
#include "tl_grad_weight.h"

/* run[p][i] = x[p][i] as float for i < count, 0 for the others. */
static void fill_run(const tl_conv *conv, const int8_t *x, size_t count, size_t pixels,
                     float *run) {
    int32_t zero = conv->in_zero;
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < TL_BLOCK; i++) {
            run[i] = i < count ? (float)(x[i] - zero) : 0.0f;
        }
        x += conv->kept;
        run += TL_BLOCK;
    }
}

static inline __attribute__((always_inline)) void every_channel(const tl_conv *conv,
                                                                tl_weight_grad *job,
                                                                const float *g, const int8_t *x,
                                                                float *scratch) {
    job->pixels = (size_t)conv->in_h * conv->in_w;
    job->out = job->channels = conv->out_c;
    job->in = conv->kept;
    job->taps = 1;
    tl_place_scratch(job, scratch);
    for (size_t first = 0; first < job->in; first += TL_BLOCK) {
        size_t left = job->in - first;
        tl_weight_block block = {first, left < TL_BLOCK ? left : TL_BLOCK, 0};
        for (size_t p = 0; p < job->pixels; p += TL_RUN) {
            size_t n = job->pixels - p < TL_RUN ? job->pixels - p : TL_RUN;
            fill_run(conv, x + p * job->in + first, block.count, n, job->x);
            tl_add_run(job, &block, p, n, g);
        }
    }
}

void tl_conv2d_pointwise_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                         float *gw, float *scratch) {
    tl_weight_grad job = {.gw = gw};
    every_channel(conv, &job, g, x, scratch);
}

void tl_conv2d_pointwise_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                                const int8_t *x, int8_t *kept, float *scratch) {
    tl_weight_grad job = {.sgd = sgd, .kept = kept};
    every_channel(conv, &job, g, x, scratch);
}
