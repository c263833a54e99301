/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain gradient descent on float values: value[i] -= learning_rate * g[i].
 * No scratch.
 */
#include "tl_kernels.h"

void tl_sgd_f32(size_t n, float learning_rate, const float *g, float *value) {
    for (size_t i = 0; i < n; i++) {
        value[i] -= learning_rate * g[i];
    }
}
