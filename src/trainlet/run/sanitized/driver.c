/* SPDX-License-Identifier: Apache-2.0
 *
 * A program around an emitted library for the sanitizers: commands come on
 * standard input, answers go to standard output, both in this machine's byte
 * order.  trainlet/run/sanitized is the other side.
 *
 *   input   seed u32, learning rates f32 x 2, then for each call a label u32
 *           (UINT32_MAX predicts only) and the image
 *   output  for each call status i32, loss f32, logits f32 x classes; at the
 *           end everything that learns
 *
 * LIBRARY_HEADER, LIBRARY_PREFIX and the three sizes come from the command line.
 */
#include <stdint.h>
#include <stdio.h>

#include LIBRARY_HEADER

#define PASTE_(prefix, name) prefix##_##name
#define PASTE(prefix, name) PASTE_(prefix, name)
#define LIBRARY(name) PASTE(LIBRARY_PREFIX, name)

static int take(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }
static void give(const void *from, size_t size) { (void)fwrite(from, 1, size, stdout); }

int main(void) {
    uint32_t seed;
    float rates[2];
    if (!take(&seed, sizeof seed) || !take(rates, sizeof rates)) {
        return 3;
    }
    LIBRARY(init)(seed);
    LIBRARY(set_learning_rate)(rates[0], rates[1]);
    for (uint32_t label; take(&label, sizeof label);) {
        if (!take(LIBRARY(input)(), LIBRARY_INPUT_BYTES)) {
            return 3;
        }
        int32_t status = label == UINT32_MAX ? LIBRARY(predict)() : LIBRARY(train_step)(label);
        float loss = LIBRARY(loss)();
        give(&status, sizeof status);
        give(&loss, sizeof loss);
        give(LIBRARY(logits)(), sizeof(float) * LIBRARY_CLASSES);
    }
    give(LIBRARY(trainables)(), LIBRARY_TRAINABLE_BYTES);
    return fflush(stdout) == 0 ? 0 : 3;
}
