/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight gradient of a depthwise convolution, and its update at once, one kept channel
 * after the other:
 *
 *   gw[j][kh][kw] = 0 + sum over output pixels (oy, ox) ascending of
 *                   (x[oy * stride_h + kh - pad_top][ox * stride_w + kw - pad_left] - in_zero)
 *                   * g[oy][ox][order[j]]
 *
 * The channel of x is first turned to float, in a plane whose rows have zeros on both
 * sides; rows above and below the map are skipped.  The taps of a kernel row are summed
 * together.
 *
 * Scratch: 4 * in_h * ((out_w - 1) * stride_w + kernel_w) bytes.
 */
#include "tl_kernels.h"
#include "tl_random.h"

#define MOST_TAPS 7

/* One kernel row of one channel: the output rows that it meets. */
typedef struct {
    const tl_conv *conv;
    const float *x; /* the plane's row under the first output row, at tap 0 */
    const float *g; /* the channel, at the first output row */
    size_t rows, width;
} kernel_row;

/* The sums of `taps` (a constant) neighbouring taps. */
static inline __attribute__((always_inline)) void some_taps(size_t taps, const kernel_row *k,
                                                            size_t first, float *sum) {
    float s[MOST_TAPS] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    const float *row = k->x + first;
    const float *g = k->g;
    size_t step = k->conv->out_c;
    size_t stride = k->conv->stride_w;
    for (size_t r = 0; r < k->rows; r++) {
        const float *x = row;
        for (size_t n = k->conv->out_w; n > 0; n--) {
            float value = *g;
            for (size_t t = 0; t < taps; t++) {
                s[t] += x[t] * value;
            }
            x += stride;
            g += step;
        }
        row += k->width * k->conv->stride_h;
    }
    for (size_t t = 0; t < taps; t++) {
        sum[t] = s[t];
    }
}

/* As many of the taps from `first` on as there is code for; returns how many. */
static size_t next_taps(const kernel_row *k, size_t first, float *sum) {
    switch (k->conv->kernel_w - first) {
    case 7: some_taps(7, k, first, sum); return 7;
    case 5: some_taps(5, k, first, sum); return 5;
    case 4: some_taps(4, k, first, sum); return 4;
    case 3: some_taps(3, k, first, sum); return 3;
    case 2: some_taps(2, k, first, sum); return 2;
    case 1: some_taps(1, k, first, sum); return 1;
    default: some_taps(4, k, first, sum); return 4;
    }
}

/* x of one channel as float, its border left as it is. */
static void fill_plane(const tl_conv *conv, const int8_t *x, size_t width, float *plane) {
    size_t left = conv->pad_left, step = conv->kept;
    size_t room = width > left ? width - left : 0;
    size_t columns = room < conv->in_w ? room : conv->in_w;
    int32_t zero = conv->in_zero;
    for (size_t y = 0; y < conv->in_h; y++) {
        const int8_t *from = x + y * conv->in_w * step;
        float *to = plane + y * width + left;
        for (size_t n = columns; n > 0; n--) {
            *to++ = (float)(*from - zero);
            from += step;
        }
    }
}

/* The output rows oy whose input row oy * stride_h + kh - pad_top lies in the map. */
static kernel_row rows_under(const tl_conv *conv, size_t kh, const float *plane, size_t width,
                             const float *g) {
    size_t stride = conv->stride_h, pad = conv->pad_top;
    size_t bottom = conv->in_h + pad; /* oy * stride + kh lies in [pad, bottom) */
    size_t first = pad > kh ? (pad - kh + stride - 1) / stride : 0;
    size_t end = bottom > kh ? (bottom - kh + stride - 1) / stride : 0;
    if (end > conv->out_h) {
        end = conv->out_h;
    }
    kernel_row k = {conv, plane, g, 0, width};
    if (first < end) {
        k.rows = end - first;
        k.x = plane + (first * stride + kh - pad) * width;
        k.g = g + first * conv->out_w * conv->out_c;
    }
    return k;
}

/* The sums of one channel go to gw, or where it is NULL, to the weights. */
static inline __attribute__((always_inline)) void
every_channel(const tl_conv *conv, const float *g, const int8_t *x, float *gw, const tl_sgd *sgd,
              int8_t *kept, float *plane) {
    size_t width = (size_t)(conv->out_w - 1) * conv->stride_w + conv->kernel_w;
    for (size_t i = 0; i < width * conv->in_h; i++) {
        plane[i] = 0.0f;
    }
    uint32_t element = 0;
    for (size_t j = 0; j < conv->kept; j++) {
        size_t channel = conv->order ? conv->order[j] : j;
        fill_plane(conv, x + j, width, plane);
        for (size_t kh = 0; kh < conv->kernel_h; kh++) {
            kernel_row k = rows_under(conv, kh, plane, width, g + channel);
            for (size_t kw = 0; kw < conv->kernel_w;) {
                float sum[MOST_TAPS];
                size_t count = next_taps(&k, kw, sum);
                for (size_t t = 0; t < count; t++, kw++, element++) {
                    if (gw) {
                        gw[element] = sum[t];
                        continue;
                    }
                    int8_t *weight = kept + (kh * conv->kernel_w + kw) * conv->kept + j;
                    *weight = tl_sgd_weight(*weight, sum[t], sgd->scale[channel],
                                            sgd->learning_rate, sgd->key, element);
                }
            }
        }
    }
}

void tl_conv2d_depthwise_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                         float *gw, float *scratch) {
    every_channel(conv, g, x, gw, NULL, NULL, scratch);
}

void tl_conv2d_depthwise_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                                const int8_t *x, int8_t *kept, float *scratch) {
    every_channel(conv, g, x, NULL, sgd, kept, scratch);
}
