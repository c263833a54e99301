/* SPDX-License-Identifier: Apache-2.0
 *
 * The four functions a compiler may call on its own, and the names the ARM
 * run-time ABI gives them.  Words are moved where both sides are aligned.
 */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);

/* One copy of each, whatever name it is called by. */
#define ALONE __attribute__((noinline))

/* Words that may alias anything. */
typedef uint32_t __attribute__((may_alias)) word;

ALONE void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    uint8_t *target = to;
    const uint8_t *source = from;
    if ((((uintptr_t)target | (uintptr_t)source) & 3u) == 0) {
        for (; size >= 4; size -= 4, target += 4, source += 4) {
            *(word *)(void *)target = *(const word *)(const void *)source;
        }
    }
    while (size-- != 0) {
        *target++ = *source++;
    }
    return to;
}

ALONE void *memmove(void *to, const void *from, size_t size) {
    uint8_t *target = to;
    const uint8_t *source = from;
    if ((uintptr_t)target - (uintptr_t)source >= size) {
        return memcpy(to, from, size);
    }
    while (size-- != 0) {
        target[size] = source[size];
    }
    return to;
}

ALONE void *memset(void *to, int value, size_t size) {
    uint8_t *target = to;
    uint8_t byte = (uint8_t)value;
    word four = byte * 0x01010101u;
    if (((uintptr_t)target & 3u) == 0) {
        for (; size >= 4; size -= 4, target += 4) {
            *(word *)(void *)target = four;
        }
    }
    while (size-- != 0) {
        *target++ = byte;
    }
    return to;
}

ALONE int memcmp(const void *a, const void *b, size_t size) {
    const uint8_t *left = a;
    const uint8_t *right = b;
    for (; size != 0; size--, left++, right++) {
        if (*left != *right) {
            return *left - *right;
        }
    }
    return 0;
}

#define ALIASES(suffix)                                                              \
    void __aeabi_memcpy##suffix(void *to, const void *from, size_t size);            \
    void __aeabi_memcpy##suffix(void *to, const void *from, size_t size) {           \
        (void)memcpy(to, from, size);                                                \
    }                                                                                \
    void __aeabi_memmove##suffix(void *to, const void *from, size_t size);           \
    void __aeabi_memmove##suffix(void *to, const void *from, size_t size) {          \
        (void)memmove(to, from, size);                                               \
    }                                                                                \
    /* The ABI swaps value and size. */                                              \
    void __aeabi_memset##suffix(void *to, size_t size, int value);                   \
    void __aeabi_memset##suffix(void *to, size_t size, int value) {                  \
        (void)memset(to, value, size);                                               \
    }                                                                                \
    void __aeabi_memclr##suffix(void *to, size_t size);                              \
    void __aeabi_memclr##suffix(void *to, size_t size) { (void)memset(to, 0, size); }

ALIASES()
ALIASES(4)
ALIASES(8)
