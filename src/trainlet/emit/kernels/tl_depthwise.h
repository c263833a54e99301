/* SPDX-License-Identifier: Apache-2.0
 *
 * One pixel of a depthwise convolution as assembly text, for the cores with the
 * DSP instructions: blocks of four channels, either to int8 results (fast
 * requantization, the whole range, no mask) or to their sums.  A tap takes 10 instructions, 2.5 a
 * multiplication: two words are loaded, four spread, four pairs multiplied.
 * What does not fit in the registers waits in a tl_pixel.
 */
#ifndef TL_DEPTHWISE_H
#define TL_DEPTHWISE_H

#include "tl_dsp.h"
#include "tl_kernels.h"

/* The taps of one window that lie inside the map. */
typedef struct {
    const int8_t *x;      /* the first one's pixel, channel 0 */
    size_t first;         /* its index in the kernel */
    size_t rows, columns; /* rows 0: none */
    size_t step;          /* bytes from tap to tap, in the map and in the weights: channels */
    size_t x_row, w_row;  /* and from row to row */
} tl_window;

#if TL_USE_ASM

/* Everything that the text reads and moves; the comments are its offsets. */
typedef struct {
    const int8_t *x;           /*  0: the block's first tap in the map */
    const int8_t *w;           /*  4: its weights */
    size_t x_next, w_next;     /*  8, 12: from row to row */
    const int32_t *bias;       /* 16 */
    const int32_t *multiplier; /* 20 */
    void *y;                   /* 24: results, int8_t or int32_t */
    int32_t out_zero;          /* 28 */
    size_t rows, columns;      /* 32, 36: at least 1 */
    size_t blocks;             /* 40 */
    size_t step;               /* 44: channels */
    int32_t minus_zero;        /* 48 */
    size_t rows_left;          /* 52 */
} tl_pixel;

/* r0-r3 work, r4-r7 sums, r8 x, r9 w, r10 step, r11 minus_zero, r12 a count, lr the tl_pixel. */
#define TL_TAP(at_x, at_w)                                                                        \
    "ldr     r0, " at_x "\n\t"                                                                    \
    "ldr     r1, " at_w "\n\t"                                                                    \
    "sxtab16 r2, r11, r0\n\t"                                                                     \
    "sxtb16  r3, r1\n\t"                                                                          \
    "sxtab16 r0, r11, r0, ror #8\n\t"                                                             \
    "sxtb16  r1, r1, ror #8\n\t"                                                                  \
    "smlabb  r4, r2, r3, r4\n\t"                                                                  \
    "smlatt  r6, r2, r3, r6\n\t"                                                                  \
    "smlabb  r5, r0, r1, r5\n\t"                                                                  \
    "smlatt  r7, r0, r1, r7\n\t"
#define TL_ONE TL_TAP("[r8]", "[r9]")
#define TL_TWO TL_ONE TL_TAP("[r8, r10]", "[r9, r10]")
#define TL_THREE TL_TWO TL_TAP("[r8, r10, lsl #1]", "[r9, r10, lsl #1]")

/* A block's beginning: sums from the bias, the pointers of its first tap. */
#define TL_BLOCK_BEGIN                                                                            \
    "mov     lr, %[pixel]\n\t"                                                                    \
    "ldrd    r10, r11, [lr, #44]\n"                                                               \
    "1:\n\t"                                                                                      \
    "ldr     r0, [lr, #16]\n\t"                                                                   \
    "ldm     r0!, {r4, r5, r6, r7}\n\t"                                                           \
    "str     r0, [lr, #16]\n\t"                                                                   \
    "ldrd    r8, r9, [lr]\n\t"

#define TL_BLOCK_NEXT                                                                             \
    "ldrd    r8, r9, [lr]\n\t"                                                                    \
    "ldr     r0, [lr, #40]\n\t"                                                                   \
    "add     r8, r8, #4\n\t"                                                                      \
    "add     r9, r9, #4\n\t"                                                                      \
    "strd    r8, r9, [lr]\n\t"                                                                    \
    "subs    r0, r0, #1\n\t"                                                                      \
    "str     r0, [lr, #40]\n\t"                                                                   \
    "bne     1b\n"

/* Its end: four sums and on to the next block. */
#define TL_BLOCK_SUMS                                                                             \
    "ldr     r0, [lr, #24]\n\t"                                                                   \
    "stm     r0!, {r4, r5, r6, r7}\n\t"                                                           \
    "str     r0, [lr, #24]\n\t" TL_BLOCK_NEXT

/* Its end: four results and on to the next block. */
#define TL_BLOCK_END                                                                              \
    "ldrd    r8, r9, [lr, #20]\n\t"                                                               \
    "ldr     r12, [lr, #28]\n\t"                                                                  \
    "ldm     r8!, {r0, r1, r2, r3}\n\t"                                                           \
    "smmlar  r4, r4, r0, r12\n\t"                                                                 \
    "smmlar  r5, r5, r1, r12\n\t"                                                                 \
    "smmlar  r6, r6, r2, r12\n\t"                                                                 \
    "smmlar  r7, r7, r3, r12\n\t"                                                                 \
    "ssat    r4, #8, r4\n\t"                                                                      \
    "ssat    r5, #8, r5\n\t"                                                                      \
    "ssat    r6, #8, r6\n\t"                                                                      \
    "ssat    r7, #8, r7\n\t"                                                                      \
    "strb    r4, [r9], #1\n\t"                                                                    \
    "strb    r5, [r9], #1\n\t"                                                                    \
    "strb    r6, [r9], #1\n\t"                                                                    \
    "strb    r7, [r9], #1\n\t"                                                                    \
    "strd    r8, r9, [lr, #20]\n\t" TL_BLOCK_NEXT

/* A row after another, with `row` for one. */
#define TL_ROWS(row)                                                                              \
    "ldr     r12, [lr, #32]\n"                                                                    \
    "2:\n\t" row                                                                                  \
    "ldrd    r0, r1, [lr, #8]\n\t"                                                                \
    "subs    r12, r12, #1\n\t"                                                                    \
    "add     r8, r8, r0\n\t"                                                                      \
    "add     r9, r9, r1\n\t"                                                                      \
    "bne     2b\n\t"

/* All nine taps of a 3x3 window. */
#define TL_NINE                                                                                   \
    "ldr     r12, [lr, #8]\n\t" TL_THREE                                                          \
    "add     r8, r8, r12\n\t"                                                                     \
    "add     r9, r9, r10\n\t"                                                                     \
    "add     r9, r9, r10, lsl #1\n\t" TL_THREE                                                    \
    "add     r8, r8, r12\n\t"                                                                     \
    "add     r9, r9, r10\n\t"                                                                     \
    "add     r9, r9, r10, lsl #1\n\t" TL_THREE

/* Rows of four taps or more: a first tap where their number is odd, then pairs.  x_next and
 * w_next leave out what a row has moved. */
#define TL_LONG_ROWS                                                                              \
    "ldr     r0, [lr, #32]\n"                                                                     \
    "2:\n\t"                                                                                      \
    "ldr     r12, [lr, #36]\n\t"                                                                  \
    "str     r0, [lr, #52]\n\t"                                                                   \
    "lsrs    r12, r12, #1\n\t"                                                                    \
    "bcc     3f\n\t" TL_ONE                                                                       \
    "add     r8, r8, r10\n\t"                                                                     \
    "add     r9, r9, r10\n"                                                                       \
    "3:\n\t" TL_TWO                                                                               \
    "subs    r12, r12, #1\n\t"                                                                    \
    "add     r8, r8, r10, lsl #1\n\t"                                                             \
    "add     r9, r9, r10, lsl #1\n\t"                                                             \
    "bne     3b\n\t"                                                                              \
    "ldrd    r2, r3, [lr, #8]\n\t"                                                                \
    "ldr     r0, [lr, #52]\n\t"                                                                   \
    "add     r8, r8, r2\n\t"                                                                      \
    "add     r9, r9, r3\n\t"                                                                      \
    "subs    r0, r0, #1\n\t"                                                                      \
    "bne     2b\n\t"

/* The one register that is free to bring the tl_pixel in is r0. */
#define TL_PIXEL(taps, end)                                                                       \
    do {                                                                                          \
        tl_pixel *in_r0 = pixel;                                                                  \
        __asm__ volatile(TL_BLOCK_BEGIN taps end                                                  \
                         : [pixel] "+r"(in_r0)                                                    \
                         :                                                                        \
                         : "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",    \
                           "r12", "lr", "cc", "memory");                                          \
    } while (0)

/* x_next and w_next as rows of four taps or more want them. */
static inline void tl_shorten_rows(tl_pixel *pixel) {
    pixel->x_next -= pixel->columns * pixel->step;
    pixel->w_next -= pixel->columns * pixel->step;
}

/* The same for `count` pixels whose windows lie `move` bytes apart, one result after another. */
#define TL_PIXELS(taps)                                                                           \
    for (; count > 0; count--) {                                                                  \
        TL_PIXEL(taps, TL_BLOCK_END);                                                             \
        x += move;                                                                                \
        y += step;                                                                                \
        pixel->x = x;                                                                             \
        pixel->w = w;                                                                             \
        pixel->bias = bias;                                                                       \
        pixel->multiplier = multiplier;                                                           \
        pixel->y = y;                                                                             \
        pixel->blocks = blocks;                                                                   \
    }

/* Every block of neighbouring pixels with windows of one shape, to results. */
static __attribute__((noinline)) void tl_depthwise_results(tl_pixel *pixel, size_t count,
                                                           size_t move) {
    const int8_t *x = pixel->x, *const w = pixel->w;
    int8_t *y = pixel->y;
    const int32_t *const bias = pixel->bias, *const multiplier = pixel->multiplier;
    const size_t step = pixel->step, blocks = pixel->blocks;
    if (pixel->columns == 3 && pixel->rows == 3 && pixel->w_next == 3 * step) {
        TL_PIXELS(TL_NINE);
    } else if (pixel->columns == 3) {
        TL_PIXELS(TL_ROWS(TL_THREE));
    } else if (pixel->columns == 2) {
        TL_PIXELS(TL_ROWS(TL_TWO));
    } else if (pixel->columns == 1) {
        TL_PIXELS(TL_ROWS(TL_ONE));
    } else {
        tl_shorten_rows(pixel);
        TL_PIXELS(TL_LONG_ROWS);
    }
}

/* Every block of the pixel to sums. */
static __attribute__((noinline)) void tl_depthwise_sums(tl_pixel *pixel) {
    if (pixel->columns == 3) {
        TL_PIXEL(TL_ROWS(TL_THREE), TL_BLOCK_SUMS);
    } else if (pixel->columns == 2) {
        TL_PIXEL(TL_ROWS(TL_TWO), TL_BLOCK_SUMS);
    } else if (pixel->columns == 1) {
        TL_PIXEL(TL_ROWS(TL_ONE), TL_BLOCK_SUMS);
    } else {
        tl_shorten_rows(pixel);
        TL_PIXEL(TL_LONG_ROWS, TL_BLOCK_SUMS);
    }
}

#endif

#endif
