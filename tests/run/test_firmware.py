# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from fake_library import Build

from trainlet.errors import TrainletError
from trainlet.run import DoesNotFitError

PAGE = 4096
# A table that no optimization removes, in RAM and in flash.
TAKE_RAM = "static volatile uint8_t taken[{size}]; taken[taken[0]] = 1;"
TAKE_FLASH = "static const volatile uint8_t taken[{size}] = {{1}}; (void)taken[taken[0]];"


def test_sizes_add_up_to_the_memory_map(build: Build) -> None:
    firmware = build(stack_bytes=2048)
    sizes, memory = firmware.sizes, firmware.memory
    assert sizes.stack == 2048
    assert sizes.sram_bytes == sizes.data + sizes.bss + sizes.stack
    assert firmware.symbols.address("trainlet_bss_end") == memory.ram_origin + sizes.sram_bytes
    assert firmware.symbols.address("trainlet_stack_top") == memory.ram_origin + 2048
    assert sizes.flash_bytes >= sizes.text + sizes.rodata + sizes.data
    assert firmware.segments[0][0] == memory.flash_origin
    by_name = {symbol.name: symbol for symbol in firmware.symbols.objects}
    assert by_name["fake_weights"].size == 48 * 4
    assert memory.flash_origin < by_name["fake_weights"].address
    assert by_name["context"].address >= memory.ram_origin


def test_ram_grows_by_what_is_taken(build: Build) -> None:
    small, large = (build(TAKE_RAM.format(size=size)).sizes.sram_bytes for size in (8, 8 + 1000))
    assert large - small == 1000


@pytest.mark.parametrize("stack", [1024, 4096])
def test_sram_that_is_missing_is_counted_to_the_byte(build: Build, stack: int) -> None:
    free = 2 * PAGE - build(TAKE_RAM.format(size=8), stack_bytes=stack).sizes.sram_bytes
    full = build(TAKE_RAM.format(size=8 + free), stack_bytes=stack, ram_bytes=2 * PAGE)
    assert full.sizes.sram_bytes == 2 * PAGE
    message = "it needs 24 bytes more SRAM than the 8192 bytes it has"
    with pytest.raises(DoesNotFitError, match=message) as caught:
        build(TAKE_RAM.format(size=8 + free + 24), stack_bytes=stack, ram_bytes=2 * PAGE)
    assert (caught.value.sram_excess, caught.value.flash_excess) == (24, 0)


def test_flash_that_is_missing_is_counted_to_the_byte(build: Build) -> None:
    free = 4 * PAGE - build(TAKE_FLASH.format(size=8)).sizes.flash_bytes
    assert (
        build(TAKE_FLASH.format(size=8 + free), flash_bytes=4 * PAGE).sizes.flash_bytes == 4 * PAGE
    )
    with pytest.raises(DoesNotFitError) as caught:
        build(TAKE_FLASH.format(size=8 + free + 8), flash_bytes=4 * PAGE)
    assert (caught.value.sram_excess, caught.value.flash_excess) == (0, 8)


def test_both_can_be_missing(build: Build) -> None:
    with pytest.raises(DoesNotFitError, match=r"bytes more flash .* and .* bytes more SRAM"):
        build(
            TAKE_RAM.format(size=9000) + TAKE_FLASH.replace("taken", "kept").format(size=9000),
            ram_bytes=PAGE,
            flash_bytes=PAGE,
        )


def test_an_unknown_function_is_named(build: Build) -> None:
    with pytest.raises(TrainletError, match=r"does not link: .*undefined symbol: missing"):
        build("extern void missing(void); missing();")


def test_linker_script_stays_beside_the_image(build: Build) -> None:
    script = build().path.with_suffix(".ld").read_text()
    assert "ORIGIN = 0x20000000, LENGTH = 327680" in script


@pytest.mark.parametrize("stack", [0, 12, -8])
def test_bad_stack_is_refused(build: Build, stack: int) -> None:
    with pytest.raises(TrainletError, match="positive multiple of 8"):
        build(stack_bytes=stack)
