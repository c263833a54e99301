/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the unaligned accesses that a real core traps and unicorn lets pass.
 */
#include <stdint.h>

/* trainlet/run/cortexm/alignment.py holds the same layout. */
struct watch {
    uint64_t origin;      /* address of code[0] */
    uint64_t halfwords;
    const uint16_t *code;
    int32_t (*read_register)(void *emulator, int32_t name, void *value);
    int32_t (*stop)(void *emulator);
    uint64_t pc;          /* of the first bad access; 0 while there is none */
    uint64_t address;
    int32_t program_counter; /* unicorn's name of the register */
    int32_t bytes;
    int32_t any; /* ARMv6-M traps every unaligned access, ARMv7-M some instructions' */
};

void check_alignment(void *emulator, int32_t kind, uint64_t address, int32_t bytes, int64_t value,
                     void *user);

/* LDM, STM; LDRD, STRD, LDREX; VLDR, VLDM and their stores (ARMv7-M ARM, A3.2.1). */
static int must_be_aligned(uint16_t first) {
    return (first >> 12) == 0xCu || (first & 0xFE00u) == 0xE800u || (first & 0xFE00u) == 0xEC00u;
}

void check_alignment(void *emulator, int32_t kind, uint64_t address, int32_t bytes, int64_t value,
                     void *user) {
    struct watch *watch = user;
    uint32_t pc = 0;
    (void)kind;
    (void)value;
    /* Doublewords need the alignment of words. */
    uint32_t unit = bytes > 4 ? 4u : (uint32_t)bytes;
    if ((address & (unit - 1u)) == 0 || watch->pc != 0) {
        return;
    }
    (void)watch->read_register(emulator, watch->program_counter, &pc);
    uint64_t at = (pc - watch->origin) / 2;
    if (!watch->any && at < watch->halfwords && !must_be_aligned(watch->code[at])) {
        return;
    }
    watch->pc = pc;
    watch->address = address;
    watch->bytes = bytes;
    (void)watch->stop(emulator);
}
