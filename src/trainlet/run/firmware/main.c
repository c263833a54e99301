/* SPDX-License-Identifier: Apache-2.0
 *
 * The program around an emitted library: it waits for a command in its
 * mailbox, carries it out, and waits again.  A debugger or an emulator writes
 * the image to `input`, sets `command` last, and reads the answers when
 * `command` is 0 again.  trainlet/run/cortexm/device.py is the other side.
 *
 * LIBRARY_HEADER and LIBRARY_PREFIX come from the command line.
 */
#include <stdint.h>

#include LIBRARY_HEADER

#define PASTE_(prefix, name) prefix##_##name
#define PASTE(prefix, name) PASTE_(prefix, name)
#define LIBRARY(name) PASTE(LIBRARY_PREFIX, name)

enum command {
    COMMAND_NONE = 0,
    COMMAND_INIT = 1,
    COMMAND_PREDICT = 2,
    COMMAND_TRAIN_STEP = 3,
    COMMAND_SET_LEARNING_RATE = 4
};

struct trainlet_mailbox {
    uint32_t command;
    uint32_t label;
    uint32_t seed;
    float learning_rate_backbone;
    float learning_rate_head;
    int32_t status;
    float loss;
    int8_t *input;
    const float *logits;
    uint8_t *trainables;
};
volatile struct trainlet_mailbox trainlet_mailbox;

void trainlet_wait(void);
int main(void);

/* The emulator stops here and returns for the program. */
__attribute__((noinline)) void trainlet_wait(void) {
    while (trainlet_mailbox.command == COMMAND_NONE) {
    }
}

int main(void) {
    trainlet_mailbox.input = LIBRARY(input)();
    trainlet_mailbox.trainables = LIBRARY(trainables)();
    for (;;) {
        trainlet_wait();
        switch (trainlet_mailbox.command) {
        case COMMAND_INIT:
            LIBRARY(init)(trainlet_mailbox.seed);
            break;
        case COMMAND_PREDICT:
            trainlet_mailbox.status = LIBRARY(predict)();
            trainlet_mailbox.logits = LIBRARY(logits)();
            break;
        case COMMAND_TRAIN_STEP:
            trainlet_mailbox.status = LIBRARY(train_step)(trainlet_mailbox.label);
            trainlet_mailbox.loss = LIBRARY(loss)();
            trainlet_mailbox.logits = LIBRARY(logits)();
            break;
        case COMMAND_SET_LEARNING_RATE:
            LIBRARY(set_learning_rate)(trainlet_mailbox.learning_rate_backbone,
                                       trainlet_mailbox.learning_rate_head);
            break;
        default:
            break;
        }
        trainlet_mailbox.command = COMMAND_NONE;
    }
}
