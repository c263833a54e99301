# SPDX-License-Identifier: Apache-2.0
"""The figures of the plan are those of the linker, and of plain formulas."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sample_network import SCHEME, sample_network, sample_program, write_emitted
from trainlet.build import analyze_program, step_timeline
from trainlet.devices import MemoryMap
from trainlet.emit import Program, context_bytes
from trainlet.nn import convolutions
from trainlet.run import build_firmware
from trainlet.scheme import Scheme, everything, head_only

ROOMY = MemoryMap(0x08000000, 1 << 20, 0x20000000, 1 << 20)
SCHEMES = [SCHEME, head_only(), everything()]


@pytest.fixture(scope="module", params=SCHEMES, ids=lambda scheme: scheme.name)
def program(request: pytest.FixtureRequest) -> Program:
    scheme: Scheme = request.param
    return sample_program(scheme=scheme)


def test_parts_add_up(program: Program) -> None:
    found = analyze_program(program, 2048)
    assert found.trainable_bytes == program.trainable_bytes
    assert found.arena_bytes + found.trainable_bytes + found.state_bytes == context_bytes(program)
    assert found.sram_bytes == context_bytes(program) + 2048
    data = found.to_data()
    parts = ("arena", "weight", "bias", "head", "state", "stack")
    assert sum(data[f"{part}_bytes"] for part in parts) == data["sram_bytes"]
    assert found.arena_lower_bound_bytes <= found.arena_bytes


@pytest.mark.slow
def test_the_linker_agrees(program: Program, tmp_path: Path) -> None:
    found = analyze_program(program, 2048)
    firmware = build_firmware(
        write_emitted(program, tmp_path),
        "net",
        core="cortex-m7",
        memory=ROOMY,
        target=tmp_path / "net.elf",
        stack_bytes=2048,
    )
    sizes = firmware.sizes
    writable = {
        symbol.name: symbol.size
        for symbol in firmware.symbols.objects
        if symbol.address >= ROOMY.ram_origin
    }
    assert writable.pop("context") == found.sram_bytes - found.stack_bytes
    assert sorted(writable) == ["trainlet_fault", "trainlet_mailbox"]
    bench = sum(writable.values())
    assert sizes.sram_bytes - bench == pytest.approx(found.sram_bytes, abs=8)
    assert sizes.data == 0
    assert sizes.sram_bytes == sizes.bss + sizes.stack
    # The structs and tables of the calls, code apart, are all that the constants do not count.
    assert found.constant_bytes <= sizes.rodata <= found.constant_bytes + 4096


def test_the_peak_is_where_the_live_bytes_are(program: Program) -> None:
    found = analyze_program(program)
    timeline = step_timeline(program)
    sizes = [value.bytes for value in found.peak_values]
    assert sizes == sorted(sizes, reverse=True)
    assert max(v.address + v.bytes for v in found.peak_values) <= found.arena_bytes
    assert sum(sizes) >= found.arena_lower_bound_bytes - 8 * len(sizes)
    assert found.peak_operator
    assert [b.name for b in timeline.at_peak] == [v.name for v in found.peak_values]


def test_multiply_accumulates_are_the_formulas() -> None:
    network = sample_network()
    macs = 0

    def count(conv: torch.nn.Module, _: object, y: torch.Tensor) -> None:
        nonlocal macs
        macs += y.numel() * conv.weight[0].numel()

    for conv in convolutions(network).values():
        conv.register_forward_hook(count)
    network(torch.zeros(1, *network.input_shape))
    macs += network.head.weight.numel()
    for scheme in (SCHEME, head_only(), everything()):
        assert analyze_program(sample_program(scheme=scheme)).macs_forward == macs


def test_training_less_costs_less() -> None:
    head, some, all_ = (
        analyze_program(sample_program(scheme=scheme))
        for scheme in (head_only(), SCHEME, everything())
    )
    assert head.macs_backward == sample_network().head.weight.numel()
    assert head.macs_backward < some.macs_backward < all_.macs_backward
    assert head.weight_bytes == head.bias_bytes == 0 < head.head_bytes
    assert head.sram_bytes < some.sram_bytes < all_.sram_bytes
