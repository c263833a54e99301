/* SPDX-License-Identifier: Apache-2.0
 *
 * From reset to main on any Cortex-M, and what happens when something faults.
 */
#include <stdint.h>

/* Set by the linker script. */
extern uint32_t trainlet_stack_bottom[], trainlet_stack_top[];
extern uint32_t trainlet_data_load[], trainlet_data_start[], trainlet_data_end[];
extern uint32_t trainlet_bss_start[], trainlet_bss_end[];

int main(void);
void Reset_Handler(void);
void trainlet_fault_handler(void);
void trainlet_record_fault(const uint32_t *frame);
void trainlet_stop(void);

/* Where and why the program died, for a debugger to read.  The status
 * registers exist from ARMv7-M on; a Cortex-M0+ leaves them 0. */
struct trainlet_fault {
    uint32_t happened, pc, lr, sp, cfsr, hfsr, mmfar, bfar;
};
volatile struct trainlet_fault trainlet_fault;

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

__attribute__((noreturn)) void Reset_Handler(void) {
#if defined(__ARM_FP)
    /* Full access to coprocessors 10 and 11, the floating-point unit (CPACR). */
    REGISTER(0xE000ED88u) |= 0xFu << 20;
    __asm volatile("dsb\n\tisb" ::: "memory");
#endif
    const uint32_t *load = trainlet_data_load;
    for (uint32_t *word = trainlet_data_start; word < trainlet_data_end; word++) {
        *word = *load++;
    }
    for (uint32_t *word = trainlet_bss_start; word < trainlet_bss_end; word++) {
        *word = 0;
    }
    (void)main();
    for (;;) {
        trainlet_stop();
    }
}

__attribute__((noinline)) void trainlet_stop(void) {
    __asm volatile("" ::: "memory");
}

/* The stack lies at the bottom of RAM and may be what overflowed, so the
 * handler starts it anew and reads the saved frame only where it is RAM. */
__attribute__((noreturn)) void trainlet_record_fault(const uint32_t *frame) {
    trainlet_fault.happened = 1;
    trainlet_fault.sp = (uint32_t)(uintptr_t)frame;
    if (frame >= trainlet_stack_bottom && frame + 8 <= trainlet_stack_top) {
        trainlet_fault.lr = frame[5];
        trainlet_fault.pc = frame[6];
    }
#if __ARM_ARCH >= 7
    trainlet_fault.cfsr = REGISTER(0xE000ED28u);
    trainlet_fault.hfsr = REGISTER(0xE000ED2Cu);
    trainlet_fault.mmfar = REGISTER(0xE000ED34u);
    trainlet_fault.bfar = REGISTER(0xE000ED38u);
#endif
    for (;;) {
        trainlet_stop();
    }
}

/* Nothing here runs on the process stack, so the frame is on the main one. */
__attribute__((naked)) void trainlet_fault_handler(void) {
    __asm volatile(
        "mrs r0, msp\n\t"
        "ldr r1, =trainlet_stack_top\n\t"
        "mov sp, r1\n\t"
        "ldr r1, =trainlet_record_fault\n\t"
        "bx r1\n\t"
        ".ltorg");
}

union vector {
    const uint32_t *stack;
    void (*handler)(void);
};

/* The architecture's own sixteen entries; no interrupt is ever enabled. */
__attribute__((section(".vectors"), used)) static const union vector vectors[16] = {
    {.stack = trainlet_stack_top},
    {.handler = Reset_Handler},
    {.handler = trainlet_fault_handler}, /* NMI */
    {.handler = trainlet_fault_handler}, /* HardFault */
    {.handler = trainlet_fault_handler}, /* MemManage */
    {.handler = trainlet_fault_handler}, /* BusFault */
    {.handler = trainlet_fault_handler}, /* UsageFault */
    {0},
    {0},
    {0},
    {0},
    {.handler = trainlet_fault_handler}, /* SVCall */
    {.handler = trainlet_fault_handler}, /* DebugMonitor */
    {0},
    {.handler = trainlet_fault_handler}, /* PendSV */
    {.handler = trainlet_fault_handler}, /* SysTick */
};
