# SPDX-License-Identifier: Apache-2.0
"""`trainlet devices`: which devices there are, and where each figure comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from trainlet.cli.console import console, count, print_json
from trainlet.cli.options import Json
from trainlet.devices import Device, device_names, load_device


def devices(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One device, or a TOML file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the devices, or one with the source of every figure.

    Example: [bold]trainlet devices stm32f746[/bold]
    """
    if name is not None:
        device = load_device(name)
        if as_json:
            print_json(device_data(device))
        else:
            _print_figures(device)
        return
    found = [load_device(known) for known in device_names()]
    if as_json:
        print_json([device_data(device) for device in found])
    else:
        _print_list(found)


def device_data(device: Device) -> dict[str, Any]:
    """A device as plain data: its figures, and the source of each by dotted name."""
    return asdict(device) | {
        "is_microcontroller": device.is_microcontroller,
        "sources": dict(device.sources),
    }


def _print_list(found: list[Device]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("device", "core"):
        table.add_column(heading, no_wrap=True)
    for heading in ("MHz", "SRAM bytes", "flash bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("description")
    for device in found:
        sizes = (device.clock_hz // 10**6, device.ram_bytes, device.flash_bytes)
        texts = (device.name, device.core, *map(count, sizes), device.description)
        table.add_row(*map(escape, texts))
    console().print(table)


def _print_figures(device: Device) -> None:
    table = Table(box=None, pad_edge=False, title=escape(device.description), title_justify="left")
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("source")
    table.add_row("core", escape(device.core), "")
    for path, source in device.sources.items():
        table.add_row(escape(path), _figure_text(path, figure(device, path)), escape(source))
    console().print(table)


def figure(device: Device, path: str) -> object:
    """The value of a figure by its dotted name in the TOML file, such as "paging.watts"."""
    section, _, name = path.partition(".")
    if name.endswith("_origin"):
        return getattr(device.memory_map, name)
    return getattr({"compute": device.compute, "paging": device.paging}.get(section, device), name)


def _figure_text(path: str, value: object) -> str:
    if path.endswith("_origin"):
        return f"{value:#010x}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return count(value) if isinstance(value, int) else f"{value:g}"
