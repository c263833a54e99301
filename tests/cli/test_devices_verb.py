# SPDX-License-Identifier: Apache-2.0
import pytest
from command_line import Call

from trainlet.devices import device_names, load_device


def test_the_table_and_the_json_list_every_device(call: Call) -> None:
    table = call("devices").out
    assert all(name in table for name in device_names())
    data = call("devices", "--json").data
    assert [entry["name"] for entry in data] == list(device_names())


@pytest.mark.parametrize("name", device_names())
def test_one_device_shows_the_source_of_every_figure(call: Call, name: str) -> None:
    words = " ".join(call("devices", name).out.split())
    device = load_device(name)
    assert all(path in words for path in device.sources)
    data = call("devices", name, "--json").data
    assert data["ram_bytes"] == device.ram_bytes
    assert data["sources"] == dict(device.sources)


def test_figures_read_as_people_write_them(call: Call) -> None:
    out = call("devices", "stm32f746").out
    assert "327,680" in out
    assert "0x20000000" in out
    assert "yes" in out
