/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight gradient of any convolution with weights in the `pairs` layout, and its update at
 * once:
 *
 *   gw[o][i][kh][kw] = 0 + sum over output pixels (oy, ox) ascending of
 *       g[oy][ox][o] * (x[oy * stride_h + kh - pad_top][ox * stride_w + kw - pad_left][i] - in_zero)
 *
 * where the padding counts as 0.  x holds the kept channels alone, those of group 0, then of
 * group 1, ... per pixel.  Four input channels under one tap are turned to float, then meet
 * the output channels four at a time; see tl_grad_weight.h.
 *
 * Scratch, with P = out_h * out_w:
 *   P <= 64:  16 * P + 64 bytes
 *   P > 64:   1024 + 16 * (out_c / groups rounded up to a multiple of 4) bytes
 */
#include "tl_grad_weight.h"

/* run[p][i] = what output pixel start + p meets under the tap, of channels x[0 .. count). */
static void fill_run(const tl_conv *conv, const int8_t *x, size_t count, size_t tap, size_t start,
                     size_t pixels, float *run) {
    int32_t zero = conv->in_zero;
    int32_t kh = (int32_t)(tap / conv->kernel_w), kw = (int32_t)(tap % conv->kernel_w);
    int32_t oy = (int32_t)(start / conv->out_w), ox = (int32_t)(start % conv->out_w);
    size_t step = (size_t)conv->kept * conv->groups;
    for (; pixels > 0; pixels--, run += TL_BLOCK) {
        int32_t iy = oy * conv->stride_h + kh - conv->pad_top;
        int32_t ix = ox * conv->stride_w + kw - conv->pad_left;
        int inside = iy >= 0 && iy < conv->in_h && ix >= 0 && ix < conv->in_w;
        const int8_t *from = inside ? x + (size_t)(iy * conv->in_w + ix) * step : x;
        for (size_t i = 0; i < TL_BLOCK; i++) {
            run[i] = inside && i < count ? (float)(from[i] - zero) : 0.0f;
        }
        if (++ox == conv->out_w) {
            ox = 0;
            oy++;
        }
    }
}

/* One group; g and x point at its first channel. */
static void one_group(const tl_conv *conv, const tl_weight_grad *job, const float *g,
                      const int8_t *x) {
    for (size_t first = 0; first < job->in; first += TL_BLOCK) {
        size_t left = job->in - first;
        tl_weight_block block = {first, left < TL_BLOCK ? left : TL_BLOCK, 0};
        for (; block.tap < job->taps; block.tap++) {
            for (size_t p = 0; p < job->pixels; p += TL_RUN) {
                size_t n = job->pixels - p < TL_RUN ? job->pixels - p : TL_RUN;
                fill_run(conv, x + first, block.count, block.tap, p, n, job->x);
                tl_add_run(job, &block, p, n, g);
            }
        }
    }
}

static void every_group(const tl_conv *conv, tl_weight_grad *job, const float *g, const int8_t *x,
                        float *scratch) {
    job->pixels = (size_t)conv->out_h * conv->out_w;
    job->out = conv->out_c / conv->groups;
    job->channels = conv->out_c;
    job->in = conv->kept;
    job->taps = (size_t)conv->kernel_h * conv->kernel_w;
    tl_place_scratch(job, scratch);
    for (size_t group = 0; group < conv->groups; group++) {
        job->first = group * job->out;
        one_group(conv, job, g + job->first, x + group * job->in);
        if (job->kept) {
            job->kept += tl_pairs_size(job->out, tl_pairs_quads(job->taps * job->in));
        }
    }
}

void tl_conv2d_general_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                       float *gw, float *scratch) {
    tl_weight_grad job = {.gw = gw};
    every_group(conv, &job, g, x, scratch);
}

void tl_conv2d_general_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                              const int8_t *x, int8_t *kept, float *scratch) {
    tl_weight_grad job = {.sgd = sgd, .kept = kept};
    every_group(conv, &job, g, x, scratch);
}
