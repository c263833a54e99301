/* SPDX-License-Identifier: Apache-2.0
 *
 * y[i] = a[i] + b[i]: the gradients of a value with two users.  y may be a or b.
 * No scratch.
 */
#include "tl_kernels.h"

void tl_add_f32(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}
