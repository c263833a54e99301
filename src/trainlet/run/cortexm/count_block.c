/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions that an emulated Cortex-M retires: unicorn calls
 * count_block at the start of every basic block it runs.  The same hook in
 * Python would make the emulation several times slower.
 */
#include <stddef.h>
#include <stdint.h>

/* What is known of the block that begins at one halfword of code. */
struct block {
    uint32_t bytes;
    uint32_t instructions;
};

/* trainlet/run/cortexm/counting.py holds the same layout. */
struct counter {
    uint64_t origin;       /* address of code[0] */
    uint64_t halfwords;    /* entries of code, blocks and executed */
    const uint16_t *code;
    struct block *blocks;
    uint64_t *executed;    /* instructions by the halfword at which their block begins */
    uint64_t total;
    uint64_t limit;        /* stop the emulation when total passes it */
    int32_t (*stop)(void *emulator);
};

void count_block(void *emulator, uint64_t address, uint32_t bytes, void *user);

/* A Thumb instruction takes four bytes if its first halfword begins with 11101, 11110 or 11111. */
static uint32_t decode(const uint16_t *code, uint64_t halfwords) {
    uint32_t instructions = 0;
    for (uint64_t i = 0; i < halfwords; i += (code[i] >> 11) >= 0x1Du ? 2u : 1u) {
        instructions++;
    }
    return instructions;
}

void count_block(void *emulator, uint64_t address, uint32_t bytes, void *user) {
    struct counter *counter = user;
    uint64_t at = (address - counter->origin) / 2;
    if (address < counter->origin || at + bytes / 2 > counter->halfwords) {
        return; /* code outside flash faults by itself */
    }
    struct block *block = &counter->blocks[at];
    if (block->bytes != bytes) {
        block->bytes = bytes;
        block->instructions = decode(counter->code + at, bytes / 2);
    }
    counter->executed[at] += block->instructions;
    counter->total += block->instructions;
    if (counter->total > counter->limit) {
        (void)counter->stop(emulator);
    }
}
