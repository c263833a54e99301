# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from trainlet.devices import Device, MemoryMap, device_names, load_device
from trainlet.errors import TrainletError

MINIMAL = """
name = "mine"
description = "a board of one's own"
core = "cortex-m4"
[cpu]
clock_hz = {value = 80000000, source = "s"}
has_fpu = {value = true, source = "s"}
has_dsp = {value = true, source = "s"}
[memory]
ram_bytes = {value = 131072, source = "s"}
ram_origin = {value = 0x20000000, source = "s"}
flash_bytes = {value = 524288, source = "s"}
flash_origin = {value = 0x08000000, source = "s"}
"""


def load_text(tmp_path: Path, text: str) -> Device:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_device(path)


@pytest.mark.parametrize("name", device_names())
def test_every_shipped_device_loads_and_carries_a_source_for_each_figure(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert {"cpu.clock_hz", "memory.ram_bytes", "memory.flash_bytes"} <= set(device.sources)
    assert all(device.sources.values())
    assert device.is_microcontroller == device.core.startswith("cortex-m")


def test_the_six_devices_are_there() -> None:
    assert device_names() == (
        "host",
        "jetson-tx2",
        "mkr1000",
        "nrf52840",
        "raspberry-pi-4",
        "stm32f746",
    )


def test_stm32f746_has_its_real_memory_map() -> None:
    device = load_device("stm32f746")
    assert device.memory_map == MemoryMap(0x0800_0000, 1 << 20, 0x2000_0000, 320 << 10)
    assert (device.clock_hz, device.has_fpu, device.has_dsp) == (216_000_000, True, True)


@pytest.mark.parametrize(
    ("name", "flops_per_second", "flops_per_joule"),
    [
        ("mkr1000", 2000 / 0.012, 2000 / (0.012 * 0.020 * 3.3)),
        ("nrf52840", 16283e5 / 255.6237, 16283e5 / (255.6237 * 0.003328 * 3.3)),
        ("raspberry-pi-4", 16283e5 / 13.53, 16283e5 / (13.53 * 0.6 * 5)),
    ],
)
def test_compute_figures_are_poets(
    name: str, flops_per_second: float, flops_per_joule: float
) -> None:
    compute = load_device(name).compute
    assert compute is not None
    assert compute.joules_per_flop is not None
    assert compute.flops_per_second == pytest.approx(flops_per_second, rel=1e-6)
    assert 1 / compute.joules_per_flop == pytest.approx(flops_per_joule, rel=1e-6)


@pytest.mark.parametrize("name", device_names())
def test_energy_equals_power_times_time_within_a_device(name: str) -> None:
    compute = load_device(name).compute
    assert compute is not None
    if compute.joules_per_flop is not None and compute.watts is not None:
        expected = compute.watts / compute.flops_per_second
        assert compute.joules_per_flop == pytest.approx(expected, rel=1e-5)


def test_paging_costs_latency_plus_transfer_times_power() -> None:
    paging = load_device("nrf52840").paging
    assert paging is not None
    seconds = 0.109e-3 + 4096 / 4616510
    assert paging.read_seconds(4096) == pytest.approx(seconds)
    assert paging.read_joules(4096) == pytest.approx(seconds * 0.33)
    assert paging.write_joules(4096) == pytest.approx((0.113e-3 + 4096 / 4.44e6) * 0.33)


def test_a_file_of_ones_own_loads_by_path(tmp_path: Path) -> None:
    device = load_text(tmp_path, MINIMAL)
    assert (device.name, device.compute, device.paging) == ("mine", None, None)


def test_energy_follows_from_power(tmp_path: Path) -> None:
    text = MINIMAL + (
        '[compute]\nflops_per_second = {value = 1e6, source = "s"}\n'
        'watts = {value = 2, source = "s"}\n'
    )
    compute = load_text(tmp_path, text).compute
    assert compute is not None
    assert compute.joules(5e5) == pytest.approx(1.0)
    assert compute.seconds(5e5) == pytest.approx(0.5)


def test_every_problem_of_a_file_is_listed_at_once(tmp_path: Path) -> None:
    text = """
core = "cortex-m9"
colour = "green"
[cpu]
clock_hz = 80000000
has_fpu = {value = 1, source = "s"}
has_dsp = {value = true, source = ""}
cores = {value = 2, source = "s"}
[memory]
ram_bytes = {value = -1, source = "s"}
flash_bytes = {value = 1.5, source = "s"}
[compute]
flops_per_second = {value = 0, source = "s"}
[paging]
watts = {value = nan, source = "s"}
"""
    with pytest.raises(TrainletError) as caught:
        load_text(tmp_path, text)
    message = str(caught.value)
    for part in (
        "name is missing",
        "description is missing",
        "'cortex-m9' is not one of",
        "colour is not a field",
        "cpu.clock_hz must be written {value",
        "cpu.has_fpu must be true or false",
        "cpu.has_dsp names no source",
        "cpu.cores is not a field",
        "memory.ram_bytes must be at least 1",
        "memory.flash_bytes must be a whole number",
        "ram_origin and memory.flash_origin are needed",
        "compute.flops_per_second must be above 0",
        "paging.watts must be finite",
        "paging.read_bytes_per_second is missing",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a = ", "not valid TOML"),
        (MINIMAL.replace("[cpu]", "[core_]"), "section [cpu] is missing"),
        ('cpu = 3\nname = "x"', "cpu must be a section"),
        (MINIMAL.replace("value = 80000000, ", ""), "cpu.clock_hz has no value"),
        (MINIMAL.replace('"mine"', "7"), "name must be a text"),
        (
            MINIMAL.replace("cortex-m4", "host").replace("ram_origin", "# ram_origin"),
            "go together",
        ),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(TrainletError, match=r"mine\.toml") as caught:
        load_text(tmp_path, text)
    assert part in str(caught.value)


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(TrainletError, match="did you mean stm32f746") as caught:
        load_device("STM32F747")
    assert "nrf52840" in str(caught.value)


def test_a_name_near_to_nothing_lists_the_devices() -> None:
    with pytest.raises(TrainletError, match="Trainlet knows host, jetson-tx2"):
        load_device("zx")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match="does not exist"):
        load_device(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TrainletError, match="not UTF-8"):
        load_device(binary)
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(TrainletError, match="cannot be read"):
        load_device(folder)
