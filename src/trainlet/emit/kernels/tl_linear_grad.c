/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of the fully connected head y = weight x + bias, weight[out][in].
 *
 *   gx[i]    = 0 + sum over o ascending of g[o] * weight[o][i], one i after the other
 *   gw[o][i] = g[o] * x[i]
 *   update   : weight[o][i] -= learning_rate * (g[o] * x[i]), each operation rounded,
 *              so that it equals tl_sgd_f32 on gw.
 *
 * No scratch; outputs must not share bytes with inputs.
 */
#include "tl_kernels.h"

void tl_linear_grad_input_f32(size_t in, size_t out, const float *g, const float *weight,
                              float *gx) {
    size_t i = 0;
    for (; i + 4 <= in; i += 4) {
        const float *w = weight + i;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (size_t o = 0; o < out; o++, w += in) {
            float value = g[o];
            s0 += value * w[0];
            s1 += value * w[1];
            s2 += value * w[2];
            s3 += value * w[3];
        }
        gx[i] = s0;
        gx[i + 1] = s1;
        gx[i + 2] = s2;
        gx[i + 3] = s3;
    }
    for (; i < in; i++) {
        const float *w = weight + i;
        float sum = 0.0f;
        for (size_t o = 0; o < out; o++, w += in) {
            sum += g[o] * *w;
        }
        gx[i] = sum;
    }
}

void tl_linear_grad_weight_f32(size_t in, size_t out, const float *g, const float *x, float *gw) {
    for (size_t o = 0; o < out; o++) {
        float value = g[o];
        for (size_t i = 0; i < in; i++) {
            *gw++ = value * x[i];
        }
    }
}

void tl_linear_sgd_f32(size_t in, size_t out, float learning_rate, const float *g, const float *x,
                       float *weight) {
    for (size_t o = 0; o < out; o++) {
        float value = g[o];
        for (size_t i = 0; i < in; i++) {
            *weight -= learning_rate * (value * x[i]);
            weight++;
        }
    }
}
