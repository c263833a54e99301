/* SPDX-License-Identifier: Apache-2.0
 *
 * The fully connected head: y[o] = bias[o] + sum over i ascending of
 * x[i] * weight[o][i].  The sum starts from the bias (from 0 where bias is NULL).
 * Four outputs are summed at a time, so that a value of x is loaded once for them.
 * No scratch; y must not share bytes with an input.
 */
#include "tl_kernels.h"

static inline float start(const float *bias, size_t o) {
    return bias ? bias[o] : 0.0f;
}

void tl_linear_f32(size_t in, size_t out, const float *x, const float *weight, const float *bias,
                   float *y) {
    size_t o = 0;
    for (; o + 4 <= out; o += 4) {
        const float *w0 = weight + o * in;
        const float *w1 = w0 + in;
        const float *w2 = w1 + in;
        const float *w3 = w2 + in;
        float y0 = start(bias, o), y1 = start(bias, o + 1);
        float y2 = start(bias, o + 2), y3 = start(bias, o + 3);
        for (size_t i = 0; i < in; i++) {
            float value = x[i];
            y0 += value * w0[i];
            y1 += value * w1[i];
            y2 += value * w2[i];
            y3 += value * w3[i];
        }
        y[o] = y0;
        y[o + 1] = y1;
        y[o + 2] = y2;
        y[o + 3] = y3;
    }
    for (; o < out; o++) {
        const float *w = weight + o * in;
        float sum = start(bias, o);
        for (size_t i = 0; i < in; i++) {
            sum += x[i] * w[i];
        }
        y[o] = sum;
    }
}
