/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps channels order[0..kept) of every pixel; order NULL: the first ones.
 * Elements ascend, so y may be x where order ascends.  No scratch.
 */
#include "tl_kernels.h"

void tl_select_channels_s8(size_t pixels, size_t channels, size_t kept, const uint16_t *order,
                           const int8_t *x, int8_t *y) {
    for (size_t p = 0; p < pixels; p++, x += channels, y += kept) {
        for (size_t j = 0; j < kept; j++) {
            y[j] = x[order == NULL ? j : order[j]];
        }
    }
}
