/* SPDX-License-Identifier: Apache-2.0
 *
 * The `pairs` layout of int8 weights: for each pair of output channels, for each quad
 * of k, the 8 bytes [o0 k0, o1 k0, o0 k2, o1 k2, o0 k1, o1 k1, o0 k3, o1 k3]; pairs and
 * quads are filled up with zeros.  k = tap * width + channel within the segment.
 */
#ifndef TL_WEIGHT_PAIRS_H
#define TL_WEIGHT_PAIRS_H

#include <stddef.h>

static inline size_t tl_pairs_quads(size_t k) {
    return (k + 3) / 4;
}

/* Bytes of one group's segment. */
static inline size_t tl_pairs_size(size_t out, size_t quads) {
    return (out + 1) / 2 * quads * 8;
}

/* Position of weight (o, k): inside a quad, k goes to 0, 4, 2, 6. */
static inline size_t tl_pairs_index(size_t o, size_t k, size_t quads) {
    return ((o >> 1) * quads + (k >> 2)) * 8 + ((k & 1) << 2) + (k & 2) + (o & 1);
}

#endif
