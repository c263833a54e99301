# SPDX-License-Identifier: Apache-2.0
"""What does not fit is refused: by how many bytes, which value stands at the peak, what would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sample_network import SCHEME, sample_network
from trainlet.build import (
    Analysis,
    MisfitError,
    Settings,
    analyze_program,
    build_program,
    compile_network,
    flash_excess,
    require_fit,
    sram_excess,
)
from trainlet.devices import Device, MemoryMap, load_device
from trainlet.importers import load_network
from trainlet.nn import Int8Network, apply_scheme
from trainlet.scheme import Scheme, head_only, paper


def chip(ram_bytes: int, flash_bytes: int = 1 << 20) -> Device:
    """An invented microcontroller."""
    memory = MemoryMap(0x08000000, flash_bytes, 0x20000000, ram_bytes)
    return Device(
        name="tiny-chip",
        description="invented",
        core="cortex-m7",
        clock_hz=10**8,
        ram_bytes=ram_bytes,
        flash_bytes=flash_bytes,
        memory_map=memory,
        has_fpu=True,
        has_dsp=True,
        compute=None,
        paging=None,
    )


def analysis_of(network: Int8Network, scheme: Scheme) -> Analysis:
    apply_scheme(network, scheme)
    return analyze_program(build_program(network, "sample"))


@pytest.fixture(scope="module")
def network() -> Int8Network:
    return sample_network()


@pytest.fixture(scope="module")
def wanted(network: Int8Network) -> Analysis:
    return analysis_of(network, SCHEME)


@pytest.fixture(scope="module")
def smallest(network: Int8Network) -> Analysis:
    return analysis_of(network, head_only())


def refusal(network: Int8Network, analysis: Analysis, device: Device) -> MisfitError:
    with pytest.raises(MisfitError) as caught:
        require_fit(network, SCHEME, analysis, device)
    return caught.value


def test_the_last_byte_decides(network: Int8Network, wanted: Analysis) -> None:
    require_fit(network, SCHEME, wanted, chip(wanted.sram_bytes))
    error = refusal(network, wanted, chip(wanted.sram_bytes - 1))
    assert (error.sram_excess, error.flash_excess) == (1, 0)


def test_the_error_says_everything(
    network: Int8Network, wanted: Analysis, smallest: Analysis
) -> None:
    assert smallest.sram_bytes < wanted.sram_bytes
    device = chip(smallest.sram_bytes)
    error = refusal(network, wanted, device)
    missing = wanted.sram_bytes - smallest.sram_bytes
    assert error.sram_excess == missing
    peak = wanted.peak_values[0]
    for part in (
        "scheme 'sample' does not fit tiny-chip",
        f"{missing:,} bytes of SRAM more than its {device.ram_bytes:,}",
        wanted.peak_operator,
        f"%{peak.name} alone takes {peak.bytes:,}",
        "these smaller schemes fit: head-only",
    ):
        assert part in str(error)
    assert "\n" not in str(error)


def test_nothing_fits_a_chip_that_is_smaller_still(
    network: Int8Network, wanted: Analysis, smallest: Analysis
) -> None:
    error = refusal(network, wanted, chip(smallest.sram_bytes - 1))
    assert "no smaller scheme fits either" in str(error)


def test_flash_is_counted_too(network: Int8Network, wanted: Analysis) -> None:
    room = wanted.constant_bytes
    require_fit(network, SCHEME, wanted, chip(1 << 20, room))
    error = refusal(network, wanted, chip(wanted.sram_bytes - 8, room - 3))
    assert (error.sram_excess, error.flash_excess) == (8, 3)
    assert "8 bytes of SRAM" in str(error)
    assert "3 bytes of flash" in str(error)


def test_trying_smaller_schemes_leaves_the_network_as_it_was(network: Int8Network) -> None:
    plans = apply_scheme(network, SCHEME)
    learning = {n: p.shape for n, p in network.named_parameters() if p.requires_grad}
    state = {n: t.clone() for n, t in network.state_dict().items()}
    analysis = analyze_program(build_program(network, "sample"))
    refusal(network, analysis, chip(64))
    assert {n: p.shape for n, p in network.named_parameters() if p.requires_grad} == learning
    assert all(bool((t == state[n]).all()) for n, t in network.state_dict().items())
    assert plans == apply_scheme(network, SCHEME)


def test_a_machine_with_an_operating_system_has_no_limit(wanted: Analysis) -> None:
    large = replace(wanted, arena_bytes=1 << 60)
    for name in ("host", "raspberry-pi-4"):
        device = load_device(name)
        assert sram_excess(large, device) == flash_excess(1 << 60, device) == 0


def test_a_misfit_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(MisfitError):
        compile_network(
            sample_network(), SCHEME, chip(512), tmp_path / "out", Settings("sample", "net")
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_papers_smaller_schemes_are_named(shared_dir: Path) -> None:
    path = shared_dir / "models" / "tiny-training" / "mcunet-5fps.pkl"
    network = load_network(path, classes=10, resolution=64)
    smallest = analysis_of(network, paper("mcunet-49kb"))
    scheme = paper("mcunet-148kb")
    analysis = analysis_of(network, scheme)
    with pytest.raises(MisfitError, match=r"these smaller schemes fit: .*mcunet-49kb.*head-only"):
        require_fit(network, scheme, analysis, chip(smallest.sram_bytes))
