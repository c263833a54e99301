# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from fake_library import CLASSES, Boot, Build
from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
from unicorn.arm_const import UC_ARM_REG_SP, UC_CPU_ARM_CORTEX_M7

from trainlet.errors import TrainletError
from trainlet.run import STATUS_LABEL, STATUS_NOT_INITIALIZED, EmulatedDevice, HostLibrary, Machine

# zig builds its soft-float library for the first Cortex-M0+ firmware, which takes 15 seconds.
CORES = ["cortex-m7", "cortex-m4", pytest.param("cortex-m0plus", marks=pytest.mark.slow)]


@pytest.mark.parametrize("core", CORES)
def test_same_bits_as_the_host(
    boot: Boot, library: Path, cache: Path, images: np.ndarray, core: str
) -> None:
    device, host = boot(core=core), HostLibrary(library, "fake", cache=cache)
    machines: tuple[Machine, ...] = (device, host)
    for machine in machines:
        machine.init(7)
        machine.set_learning_rate(0.3, 0.1)
    for step, image in enumerate(images):
        for machine in machines:
            assert machine.train_step(image, step % CLASSES) == 0
        assert device.loss() == host.loss()
        assert device.logits().tobytes() == host.logits().tobytes()
        np.testing.assert_array_equal(device.trainables(), host.trainables())
    assert np.unique(host.trainables()).size > 20


def test_status_codes(build: Build, cache: Path, images: np.ndarray) -> None:
    device = EmulatedDevice(build(), cache=cache)
    assert device.predict(images[0]) == STATUS_NOT_INITIALIZED
    device.init()
    before = device.trainables()
    assert device.train_step(images[0], CLASSES) == STATUS_LABEL
    np.testing.assert_array_equal(device.trainables(), before)
    device.set_trainables(before[::-1].copy())
    np.testing.assert_array_equal(device.trainables(), before[::-1])


def test_counts_repeat_exactly(boot: Boot, images: np.ndarray) -> None:
    device = boot()
    counts = []
    for image in (*images[:3], *images[:3]):
        device.predict(image)
        counts.append(device.instructions())
        assert device.instructions() == sum(device.instructions_by_function().values())
    assert len(set(counts)) == 1


def test_every_instruction_is_counted_once(boot: Boot, images: np.ndarray) -> None:
    # Two and four bytes long, in an IT block, in a loop.
    device = boot(
        '__asm volatile("movs r0, #0\\n movw r1, #1000\\n movs r3, #0\\n'
        " 1: adds r0, r0, #1\\n add.w r2, r0, r0\\n cmp r2, #64\\n ite lt\\n movlt r3, #1\\n"
        ' movge r3, #2\\n subs r1, r1, #1\\n bne 1b\\n" ::: "r0", "r1", "r2", "r3", "cc");'
    )
    device.predict(images[0])
    with_loop = device.instructions_by_function()["fake_extra"]
    empty = boot()
    empty.predict(images[0])
    # Registers beyond r0-r3 are not touched, so the function has no prologue of its own.
    assert with_loop - empty.instructions_by_function()["fake_extra"] == 3 + 1000 * 8


def test_instructions_are_attributed(boot: Boot, images: np.ndarray) -> None:
    device = boot()
    device.train_step(images[0], 1)
    counts = device.instructions_by_function()
    assert next(iter(counts)) == "fake_train_step"
    assert counts["fake_predict"] > 48 * CLASSES / 4
    assert "main" not in counts


def test_stack_high_water_follows_the_frame(boot: Boot, images: np.ndarray) -> None:
    used = {}
    for size in (512, 1536):
        device = boot(
            f"volatile uint8_t frame[{size}];"
            f" for (uint32_t i = 0; i < {size}; i++) {{ frame[i] = 1; }}"
        )
        before = device.stack_high_water()
        device.predict(images[0])
        used[size] = device.stack_high_water()
        assert before < 256
        assert size <= used[size] < size + 256
    assert used[1536] - used[512] == 1024


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "*(volatile uint32_t *)0x20100000u = 1;",
            r"4-byte write to unmapped memory at 0x20100000 in fake_extra\+0x",
        ),
        (
            "(void)*(volatile uint16_t *)0x2004FFFFu;",
            r"read of unmapped memory at 0x2005\w+ in fake_extra\+0x",
        ),
        ("*(volatile uint8_t *)0x08000000u = 1;", r"1-byte write to flash at 0x08000000 in fake_e"),
        ("__builtin_trap();", r"undefined instruction in fake_extra\+0x"),
        ('__asm volatile("bkpt 0");', r"breakpoint in fake_extra\+0x"),
        ("((void (*)(void))0x30000001u)();", r"jump to unmapped memory at 0x30000000"),
        ("((void (*)(void))0x20001001u)();", r"jump to memory that is not code at 0x20001000"),
    ],
)
def test_faults_name_the_place(boot: Boot, images: np.ndarray, extra: str, message: str) -> None:
    device = boot(extra)
    with pytest.raises(TrainletError, match=message):
        device.predict(images[0])


def test_the_last_byte_of_ram_is_there(boot: Boot, images: np.ndarray) -> None:
    device = boot("*(volatile uint8_t *)0x2004FFFFu = 1;")
    assert device.predict(images[0]) == 0


def test_stack_overflow_is_called_so(boot: Boot, images: np.ndarray) -> None:
    device = boot(
        "volatile uint8_t frame[3000]; for (uint32_t i = 3000; i > 0; i--) { frame[i - 1] = 1; }",
        stack_bytes=1024,
    )
    with pytest.raises(TrainletError, match="the stack of 1024 bytes overflowed"):
        device.predict(images[0])


def test_endless_loops_end(build: Build, cache: Path, images: np.ndarray) -> None:
    firmware = build("static volatile uint32_t go = 1; while (go) { }")
    device = EmulatedDevice(firmware, cache=cache, instruction_limit=100_000)
    device.init()
    with pytest.raises(TrainletError, match=r"more than 100000 instructions .* fake_extra\+0x"):
        device.predict(images[0])


def test_memory_functions(boot: Boot, images: np.ndarray) -> None:
    """memcpy, memmove and memset at every alignment, checked on the device itself."""
    device = boot(
        """
    static uint8_t a[64], b[64];
    uint32_t wrong = 0;
    for (uint32_t to = 0; to < 5; to++) for (uint32_t from = 0; from < 5; from++)
        for (volatile uint32_t size = 0; size < 20; size++) {
            for (uint32_t i = 0; i < 64; i++) { a[i] = (uint8_t)(i * 7u); b[i] = 0; }
            __builtin_memcpy(b + to, a + from, size);
            for (uint32_t i = 0; i < 64; i++)
                wrong += b[i] != (i >= to && i < to + size ? (uint8_t)((i - to + from) * 7u) : 0);
            __builtin_memmove(a + to, a + from, size);
            for (uint32_t i = 0; i < size; i++) wrong += a[to + i] != (uint8_t)((i + from) * 7u);
            __builtin_memset(b + to, (int)(from + 250), size);
            for (uint32_t i = 0; i < size; i++) wrong += b[to + i] != (uint8_t)(from + 250);
        }
    if (wrong != 0) __builtin_trap();"""
    )
    assert device.predict(images[0]) == 0
    assert {"memcpy", "memmove", "memset"} <= {
        symbol.name for symbol in device.firmware.symbols.functions
    }


def test_reset_and_fault_handlers(build: Build) -> None:
    """What only a real device needs: the floating-point unit turned on, and a fault handled."""
    firmware = build()
    memory, address = firmware.memory, firmware.symbols.address
    emulator = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    emulator.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_M7)
    emulator.mem_map(memory.flash_origin, memory.flash_bytes)
    emulator.mem_map(memory.ram_origin, memory.ram_bytes)
    emulator.mem_map(0xE000E000, 4096)
    emulator.reg_write(UC_ARM_REG_SP, address("trainlet_stack_top"))
    for start, content in firmware.segments:
        emulator.mem_write(start, content)
    emulator.emu_start(address("Reset_Handler") | 1, address("trainlet_wait"))
    (cpacr,) = struct.unpack("<I", emulator.mem_read(0xE000ED88, 4))
    assert cpacr == 0xF << 20
    emulator.mem_write(0xE000ED28, struct.pack("<I", 0x8200))
    frame = memory.ram_origin + 256
    emulator.mem_write(frame, struct.pack("<8I", 0, 1, 2, 3, 12, 0x0800_1235, 0x0800_2468, 0))
    emulator.reg_write(UC_ARM_REG_SP, frame)
    emulator.emu_start(address("trainlet_fault_handler") | 1, address("trainlet_stop"))
    happened, pc, lr, sp, cfsr = struct.unpack(
        "<5I", emulator.mem_read(address("trainlet_fault"), 20)
    )
    assert (happened, pc, lr, sp, cfsr) == (1, 0x0800_2468, 0x0800_1235, frame, 0x8200)


def test_wrong_image_is_refused(boot: Boot) -> None:
    with pytest.raises(TrainletError, match="takes 48 values of type int8"):
        boot().predict(np.zeros(3, np.int8))


LOADS = {
    "ldr": "ldr r0, [%0]",
    "ldrd": "ldrd r0, r1, [%0]",
    "ldm": "ldm %0, {r0, r1}",
    "vldr": "vldr s0, [%0]",
    "strd": "strd r0, r1, [%0]",
}


@pytest.mark.parametrize(
    ("core", "load", "faults"),
    [
        ("cortex-m7", "ldr", False),
        ("cortex-m7", "ldrd", True),
        ("cortex-m7", "ldm", True),
        ("cortex-m4", "vldr", True),
        ("cortex-m4", "strd", True),
        pytest.param("cortex-m0plus", "ldr", True, marks=pytest.mark.slow),
    ],
)
def test_unaligned_accesses_that_a_real_core_traps(
    build: Build, cache: Path, images: np.ndarray, core: str, load: str, faults: bool
) -> None:
    firmware = build(
        "static volatile uint32_t words[4]; uint32_t p = (uint32_t)(uintptr_t)words + 2;"
        f' __asm volatile("{LOADS[load]}" : : "l"(p) : "r0", "r1", "memory");',
        core=core,
    )
    device = EmulatedDevice(firmware, cache=cache, check_alignment=True)
    device.init()
    if faults:
        with pytest.raises(TrainletError, match=r"unaligned 4-byte access .* in fake_extra\+0x"):
            device.predict(images[0])
    else:
        assert device.predict(images[0]) == 0
