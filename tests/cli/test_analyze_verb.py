# SPDX-License-Identifier: Apache-2.0
import json
import pickle
import re
from pathlib import Path

import pytest
from command_line import Call, Fails, small_device
from tiny_pickle import write_bytes

KEYS = {
    "model", "scheme", "device", "classes", "input_shape", "fits", "sram_excess_bytes",
    "flash_excess_bytes", "fitting_schemes", "device_ram_bytes", "device_flash_bytes",
    "arena_bytes", "arena_lower_bound_bytes", "weight_bytes", "bias_bytes", "head_bytes",
    "state_bytes", "stack_bytes", "constant_bytes", "macs_forward", "macs_backward", "operators",
    "peak_operator", "peak_values", "trainable_bytes", "planned_sram_bytes", "sram_bytes",
    "flash_bytes", "linked",
}  # fmt: skip


def test_json_has_every_figure(call: Call, tiny_model: Path) -> None:
    arguments = ("--classes", 7, "--resolution", 16, "--scheme", "last-biases-2", "--json")
    ended = call("analyze", tiny_model, *arguments)
    assert (ended.status, ended.err) == (0, "")
    data = ended.data
    assert set(data) == KEYS
    assert data["fits"] is True
    assert (data["classes"], data["input_shape"]) == (7, [3, 16, 16])
    assert (data["model"], data["scheme"], data["device"]) == (
        "tiny-net",
        "last-biases-2",
        "stm32f746",
    )
    parts = ("arena", "weight", "bias", "head", "state", "stack")
    assert data["planned_sram_bytes"] == sum(data[f"{part}_bytes"] for part in parts)
    assert data["sram_bytes"] == data["linked"]["sram_bytes"] > data["planned_sram_bytes"]
    assert data["flash_bytes"] == data["linked"]["flash_bytes"] > data["constant_bytes"]


def test_the_table_says_what_the_json_says(call: Call, tiny_model: Path) -> None:
    arguments = ("analyze", tiny_model, "--resolution", 16)
    data = call(*arguments, "--json").data
    ended = call(*arguments)
    assert ended.status == 0
    keys = (
        "arena_bytes", "head_bytes", "stack_bytes", "planned_sram_bytes", "sram_bytes",
        "flash_bytes", "constant_bytes", "macs_forward", "device_ram_bytes",
    )  # fmt: skip
    for key in keys:
        assert f"{data[key]:,}" in ended.out, key
    assert f"in {data['peak_operator']}" in ended.out
    assert "It fits" in ended.out


def test_without_linking_only_the_plan_counts(call: Call, tiny_model: Path) -> None:
    data = call("analyze", tiny_model, "--resolution", 16, "--no-link", "--json").data
    assert data["linked"] is data["flash_bytes"] is None
    assert data["sram_bytes"] == data["planned_sram_bytes"]


def test_a_device_with_an_operating_system_needs_no_firmware(call: Call, tiny_model: Path) -> None:
    arguments = ("--resolution", 16, "--device", "raspberry-pi-4", "--json")
    data = call("analyze", tiny_model, *arguments).data
    assert (data["fits"], data["linked"]) == (True, None)


def test_too_little_sram_says_by_how_much_and_what_fits(
    call: Call, tiny_model: Path, tmp_path: Path
) -> None:
    arguments = ("analyze", tiny_model, "--resolution", 16, "--no-link")
    small = call(*arguments, "--json").data["sram_bytes"]
    large = call(*arguments, "--scheme", "last-biases-6", "--json").data["sram_bytes"]
    assert small < large
    device = small_device(tmp_path, small)
    ended = call(*arguments, "--scheme", "last-biases-6", "--device", device)
    assert ended.status == 2
    assert "SRAM, bytes" in ended.out
    assert "fits" not in ended.out
    assert f"{large - small:,} bytes of SRAM more than" in ended.err
    assert "these smaller schemes fit: head-only" in ended.err
    assert re.search(r"%\S+ alone takes [\d,]+ of", ended.err)
    assert ended.err.count("\n") == 1


def test_the_json_of_a_misfit(call: Call, tiny_model: Path, tmp_path: Path) -> None:
    device = small_device(tmp_path, 1024, 1024)
    ended = call("analyze", tiny_model, "--resolution", 16, "--device", device, "--json")
    assert ended.status == 2
    data = ended.data
    assert data["fits"] is False
    assert data["sram_excess_bytes"] == data["planned_sram_bytes"] - 1024
    assert data["flash_excess_bytes"] == data["constant_bytes"] - 1024
    assert data["fitting_schemes"] == []
    assert "no smaller scheme fits either" in ended.err


def test_a_misfit_that_only_the_linker_sees(call: Call, tiny_model: Path, tmp_path: Path) -> None:
    device = small_device(tmp_path, 327680, 8192)
    ended = call("analyze", tiny_model, "--resolution", 16, "--device", device, "--json")
    assert ended.status == 2
    assert ended.data["flash_excess_bytes"] > 0
    assert "bytes of flash more than" in ended.err


def foreign(path: Path) -> Path:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (print, ("owned",))

    return write_bytes(path / "evil.pkl", pickle.dumps(Evil(), protocol=2))


def test_models_that_are_none(fails: Fails, tiny_model: Path, tmp_path: Path) -> None:
    assert "does not exist" in fails("analyze", tmp_path / "none.pkl")
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(tiny_model.read_bytes()[:-400])
    assert "cut short" in fails("analyze", cut)
    assert "print" in fails("analyze", foreign(tmp_path))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--resolution", 1), "the smallest that suits is"),
        (("--resolution", 0), "resolution is 0"),
        (("--classes", 1), "classes is 1"),
        (("--stack", 12), "--stack is 12"),
        (("--device", "nothing"), "there is no device 'nothing'"),
        (("--scheme", "mcunet-50kb"), "there is no scheme 'mcunet-50kb': did you mean"),
        (("--scheme", "mcunet-49kb"), "there is no convolution 27"),
    ],
)
def test_bad_options_are_one_line(
    fails: Fails, tiny_model: Path, options: tuple[object, ...], part: str
) -> None:
    assert part in fails("analyze", tiny_model, *options)


def test_a_scheme_with_faults_names_all_of_them(
    fails: Fails, tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nbiases = 6\n[weights]\n"blocks.9.depthwise" = "1/2"\n"nothing" = "1"\n'
    )
    message = fails("analyze", tiny_model, "--resolution", 16, "--scheme", path)
    assert "blocks.9.depthwise" in message
    assert "nothing" in message
    path.write_text('name = "mine"\nbiases = 6\n[weights]\n"blocks.1.pointwise1" = "1/3"\n')
    assert "1/8, 1/4, 1/2, 1" in fails("analyze", tiny_model, "--scheme", path)


def test_json_is_nothing_but_json(call: Call, tiny_model: Path) -> None:
    ended = call("analyze", tiny_model, "--resolution", 16, "--no-link", "--json")
    json.loads(ended.out)
    assert ended.err == ""


def test_a_report_is_written(call: Call, tiny_model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    arguments = ("--resolution", 16, "--no-link", "--report", page)
    assert call("analyze", tiny_model, *arguments).status == 0
    assert "<svg" in page.read_text()


def test_the_requantization_can_be_chosen(call: Call, tiny_model: Path) -> None:
    arguments = ("analyze", tiny_model, "--resolution", 16, "--no-link", "--json")
    fast, exact = (call(*arguments, "--requantize", mode).data for mode in ("fast", "tflite"))
    assert exact["constant_bytes"] > fast["constant_bytes"]  # a shift for every channel
