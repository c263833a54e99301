/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of one training step: declarations and conventions.
 *
 * Maps are stored channels-last: element (row, column, channel) of a map lies
 * at (row * width + column) * channels + channel.  Batch is one.
 *
 * Order and overlap.  Kernels that write a map visit its pixels in ascending
 * order (tiles of TL_TILE pixels where the kernel says so), which is what
 * lets the plan place an output over its own input; the operator declares by
 * how many bytes the output must precede the input.
 *
 * Masks hold one bit an element, least significant bit first: element i is
 * bit (i & 7) of byte (i >> 3); 1 means that the value was inside the clamp's
 * range, so that its gradient passes.  A NULL mask is not written.
 *
 * Floating point.  Sums run in the order in which the loops are written, one
 * rounding for each product and one for each sum; files are compiled with
 * contraction off, so every machine gets the same bits.
 */
#ifndef TL_KERNELS_H
#define TL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Pixels whose activations are widened together before they are multiplied. */
#define TL_TILE 4

/* A convolution, as every convolution kernel sees it. */
typedef struct {
    uint16_t in_h, in_w, in_c;
    uint16_t out_h, out_w, out_c;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;
    uint16_t pad_top, pad_left; /* bottom and right follow from out_h, out_w */
    uint16_t groups;
    uint16_t kept;              /* input channels of each group whose weights learn
                                   (depthwise: channels whose weights learn) */
    int16_t in_zero, out_zero;
    int16_t clamp_min, clamp_max;
    /* The order of the input channels of a group, the kept ones first; NULL is
       0, 1, 2, ...  Depthwise: the order of the channels. */
    const uint16_t *order;
    /* Requantization, one entry an output channel.  With shift NULL:
       y = out_zero + floor((acc * multiplier + 2^31) / 2^32), the `fast` mode.
       Otherwise TFLite's MultiplyByQuantizedMultiplier(acc, multiplier, shift)
       in its double-rounding form, plus out_zero. */
    const int32_t *multiplier;
    const int8_t *shift;
} tl_conv;

/* One SGD update: scaled, then rounded stochastically where the value is an
 * integer.  The number for element i is tl_random(key, i). */
typedef struct {
    const float *scale;  /* quantization-aware scale, one an output channel */
    float learning_rate;
    uint32_t key;
} tl_sgd;

/* Residual addition.  fast: y = (a * multiplier_a + b * multiplier_b + offset) >> shift,
 * where offset holds the zero points and the rounding.  */
typedef struct {
    int32_t multiplier_a, multiplier_b, offset;
    int16_t clamp_min, clamp_max;
    uint8_t shift;
} tl_add;

/* Residual addition as TFLite's reference computes it (left shift of 20). */
typedef struct {
    int32_t multiplier_a, multiplier_b, multiplier_out;
    int8_t shift_a, shift_b, shift_out;
    int16_t zero_a, zero_b, zero_out;
    int16_t clamp_min, clamp_max;
} tl_add_exact;

typedef struct {
    uint16_t in_h, in_w, channels;
    uint16_t out_h, out_w;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;
    uint16_t pad_top, pad_left;
} tl_pool;

/* ---- int8, forward ---------------------------------------------------- */

void tl_conv2d_pointwise_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                            const int8_t *rest, const int32_t *bias, int8_t *y,
                            uint8_t *mask, int16_t *scratch);
void tl_conv2d_depthwise_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                            const int8_t *rest, const int32_t *bias, int8_t *y,
                            uint8_t *mask, int16_t *scratch);
void tl_conv2d_general_s8(const tl_conv *conv, const int8_t *x, const int8_t *kept,
                          const int8_t *rest, const int32_t *bias, int8_t *y,
                          uint8_t *mask, int16_t *scratch);
void tl_add_s8(size_t n, const tl_add *add, const int8_t *a, const int8_t *b, int8_t *y,
               uint8_t *mask);
void tl_add_exact_s8(size_t n, const tl_add_exact *add, const int8_t *a, const int8_t *b,
                     int8_t *y, uint8_t *mask);
void tl_avg_pool2d_s8(const tl_pool *pool, const int8_t *x, int8_t *y);
/* index: position of the largest value inside its window (row * kernel_w + column), the
 * first of equals; NULL is not written. */
void tl_max_pool2d_s8(const tl_pool *pool, const int8_t *x, int8_t *y, uint8_t *index);
void tl_clamp_s8(size_t n, int32_t low, int32_t high, const int8_t *x, int8_t *y, uint8_t *mask);
void tl_select_channels_s8(size_t pixels, size_t channels, size_t kept, const uint16_t *order,
                           const int8_t *x, int8_t *y);

/* ---- float32, head and loss ------------------------------------------- */

void tl_dequantize_f32(size_t n, float scale, int32_t zero, const int8_t *x, float *y);
/* weight[out][in], in the order of x in memory. */
void tl_linear_f32(size_t in, size_t out, const float *x, const float *weight, const float *bias,
                   float *y);
float tl_softmax_cross_entropy_f32(size_t n, const float *logits, size_t label,
                                   float *probabilities);

/* ---- float32, backward ------------------------------------------------- */

/* g = mask ? gy * scale[channel] : 0.  May run in place (g == gy). */
void tl_clamp_grad_f32(size_t pixels, size_t channels, const float *scale, const uint8_t *mask,
                       const float *gy, float *g);
/* g = mask ? gy * scale : 0; a NULL mask passes everything.  May run in place. */
void tl_scale_grad_f32(size_t n, float scale, const uint8_t *mask, const float *gy, float *g);
void tl_add_f32(size_t n, const float *a, const float *b, float *y); /* y may be a or b */

/* scratch of the input gradients: see each kernel's file. */
void tl_conv2d_pointwise_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                        const int8_t *rest, float *gx, float *scratch);
void tl_conv2d_depthwise_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                        const int8_t *rest, float *gx, float *scratch);
void tl_conv2d_general_grad_input_f32(const tl_conv *conv, const float *g, const int8_t *kept,
                                      const int8_t *rest, float *gx, float *scratch);

/* The weight gradient, [out][kept][kernel_h][kernel_w] (depthwise: [kept][kernel_h][kernel_w]).
 * x holds the kept channels alone (general: those of group 0, then of group 1, ... per pixel). */
void tl_conv2d_pointwise_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                         float *gw, float *scratch);
void tl_conv2d_depthwise_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                         float *gw, float *scratch);
void tl_conv2d_general_grad_weight_f32(const tl_conv *conv, const float *g, const int8_t *x,
                                       float *gw, float *scratch);
/* The same gradient, applied at once to the weights in their own layout. */
void tl_conv2d_pointwise_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                                const int8_t *x, int8_t *kept, float *scratch);
void tl_conv2d_depthwise_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                                const int8_t *x, int8_t *kept, float *scratch);
void tl_conv2d_general_sgd_s8(const tl_conv *conv, const tl_sgd *sgd, const float *g,
                              const int8_t *x, int8_t *kept, float *scratch);
/* Sum over pixels of each channel, one channel after the other, pixels ascending. */
void tl_channel_sum_f32(size_t pixels, size_t channels, const float *g, float *sum);
/* The same sum, applied at once; the bias stays within +-limit[channel]. */
void tl_channel_sum_sgd_s32(size_t pixels, size_t channels, const tl_sgd *sgd,
                            const int32_t *limit, const float *g, int32_t *bias);

void tl_avg_pool2d_grad_f32(const tl_pool *pool, const float *gy, float *gx);
void tl_max_pool2d_grad_f32(const tl_pool *pool, const float *gy, const uint8_t *index, float *gx);
void tl_linear_grad_input_f32(size_t in, size_t out, const float *g, const float *weight,
                              float *gx);
void tl_linear_grad_weight_f32(size_t in, size_t out, const float *g, const float *x, float *gw);
void tl_linear_sgd_f32(size_t in, size_t out, float learning_rate, const float *g, const float *x,
                       float *weight);
void tl_sgd_f32(size_t n, float learning_rate, const float *g, float *value);
void tl_softmax_cross_entropy_grad_f32(size_t n, const float *probabilities, size_t label,
                                       float *g);

#endif
