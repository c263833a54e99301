/* SPDX-License-Identifier: Apache-2.0
 *
 * y = (x - zero) * scale: one exact difference, one rounded product.  No scratch.
 */
#include "tl_kernels.h"

void tl_dequantize_f32(size_t n, float scale, int32_t zero, const int8_t *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)(x[i] - zero) * scale;
    }
}
