/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy of a softmax, and its gradient.
 *
 *   e[i] = exp(logits[i] - max);  sum = 0 + e[0] + e[1] + ...;  p[i] = e[i] * (1 / sum)
 *   loss = log(sum) - (logits[label] - max)
 *   gradient: p[i] - (i == label)
 *
 * The product with 1 / sum instead of a quotient: software division on cores without a
 * floating-point unit does not always round a subnormal quotient as IEEE 754 says.
 *
 * No scratch.  probabilities may be logits; g may be probabilities.
 */
#include "tl_kernels.h"
#include "tl_math.h"

float tl_softmax_cross_entropy_f32(size_t n, const float *logits, size_t label,
                                   float *probabilities) {
    float largest = logits[0];
    for (size_t i = 1; i < n; i++) {
        if (logits[i] > largest) {
            largest = logits[i];
        }
    }
    float chosen = logits[label] - largest;
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float e = tl_expf(logits[i] - largest);
        probabilities[i] = e;
        sum += e;
    }
    float inverse = 1.0f / sum;
    for (size_t i = 0; i < n; i++) {
        probabilities[i] *= inverse;
    }
    return tl_logf(sum) - chosen;
}

void tl_softmax_cross_entropy_grad_f32(size_t n, const float *probabilities, size_t label,
                                       float *g) {
    for (size_t i = 0; i < n; i++) {
        g[i] = i == label ? probabilities[i] - 1.0f : probabilities[i];
    }
}
