# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import torch

from trainlet.build import Settings, compile_network
from trainlet.devices import load_device
from trainlet.errors import TrainletError
from trainlet.importers import load_network
from trainlet.learn import accuracy, to_int8
from trainlet.learn.digits import load_digits
from trainlet.nn import Int8Network, convolutions
from trainlet.run import EmulatedDevice, HostLibrary, Machine, read_library
from trainlet.run.firmware import read_firmware
from trainlet.scheme import everything, head_only, last_biases
from trainlet.zoo import build, zoo_names
from trainlet.zoo.digits import stored_arrays


def logits_of(network: Int8Network, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return network(torch.from_numpy(images).permute(0, 3, 1, 2).float()).numpy()


def machines(network: Int8Network, folder: Path) -> tuple[HostLibrary, EmulatedDevice]:
    device = load_device("stm32f746")
    compile_network(network, head_only(), device, folder, Settings("net", "net"))
    assert device.memory_map is not None
    library = read_library(folder, "net")
    firmware = read_firmware(folder / "firmware.elf", library, device.core, device.memory_map)
    host, emulated = HostLibrary(folder, "net"), EmulatedDevice(firmware)
    host.init(1)
    emulated.init(1)
    return host, emulated


def same_logits(network: Int8Network, images: np.ndarray, *runners: Machine) -> None:
    for image, expected in zip(images, logits_of(network, images), strict=True):
        for runner in runners:
            assert runner.predict(image) == 0
            np.testing.assert_array_equal(runner.logits(), expected)


@pytest.mark.slow
def test_digits_reads_upright_digits_alike_everywhere(tmp_path: Path) -> None:
    network, test = build("digits"), load_digits().test
    images = to_int8(test.images, network.x.scale, network.x.zero)
    in_pytorch = (logits_of(network, images).argmax(1) == test.labels).mean()
    assert in_pytorch == 0.9825
    host, emulated = machines(network, tmp_path / "digits")
    assert accuracy(host, images, test.labels) == in_pytorch
    same_logits(network, images[:20], host, emulated)


@pytest.mark.slow
def test_the_random_network_is_alike_everywhere(tmp_path: Path) -> None:
    network = build("mbv2-tiny", classes=7)
    images = np.random.default_rng(5).integers(-128, 128, (20, 32, 32, 3), dtype=np.int8)
    assert logits_of(network, images).std(0).min() > 0.01  # it tells images apart
    same_logits(network, images, *machines(network, tmp_path / "mbv2"))


@pytest.mark.parametrize("name", zoo_names())
@pytest.mark.parametrize("scheme", [head_only(), last_biases(9), everything()])
def test_every_scheme_compiles(name: str, scheme: object, tmp_path: Path) -> None:
    compiled = compile_network(
        build(name), scheme, load_device("host"), tmp_path / "out", Settings("net", "net")
    )
    assert compiled.analysis.arena_bytes >= compiled.analysis.arena_lower_bound_bytes


@pytest.mark.parametrize("mode", ["fast", "tflite"])
@pytest.mark.parametrize("name", zoo_names())
def test_both_requantizations_and_other_sizes(name: str, mode: str) -> None:
    network = build(name, classes=3, resolution=24, requantize=mode)
    channels, rows, columns = network.input_shape
    assert (rows, columns, network.classes) == (24, 24, 3)
    assert logits_of(network, np.ones((2, rows, columns, channels), np.int8)).shape == (2, 3)


def test_a_seed_gives_the_same_network_and_another_one_another() -> None:
    first, again, other = (build("mbv2-tiny", seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not torch.equal(first["first_conv.rest"], other["first_conv.rest"])


def test_a_new_head_is_drawn_and_the_rest_stays() -> None:
    own, new = build("digits"), build("digits", classes=4)
    assert new.head.weight.shape == (4, 48)
    for path, conv in convolutions(own).items():
        assert torch.equal(conv.weight, convolutions(new)[path].weight)
    assert next(iter(convolutions(own))) == "first_conv"
    assert "blocks.2.pointwise1" in convolutions(own)


def test_the_arrays_are_plain_and_small() -> None:
    arrays = stored_arrays()
    assert sum(array.nbytes for array in arrays.values()) < 100_000
    assert all(array.dtype.kind in "if" for array in arrays.values())
    weights = [array for name, array in arrays.items() if name.endswith("conv.weight")]
    assert all(array.min() >= -127 for array in weights)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digit", {}, r"no network 'digit': did you mean digits\? it has digits, mbv2-tiny"),
        ("zzz", {}, r"no network 'zzz': it has"),
        ("digits", {"classes": 1}, r"classes is 1; it must lie in 2 \.\. 65536"),
        ("digits", {"resolution": 3}, r"resolution is 3; for digits it must lie in 4 \.\. 512"),
        ("mbv2-tiny", {"resolution": 1000}, r"must lie in 8 \.\. 512"),
        ("mbv2-tiny", {"seed": -1}, r"seed is -1; it must lie in 0"),
        ("digits", {"requantize": "x"}, r"requantize is 'x'; it must be one of fast, tflite"),
    ],
)
def test_what_the_zoo_cannot_give(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TrainletError, match=message):
        build(name, **options)  # type: ignore[arg-type] # every option has a type of its own


@pytest.mark.parametrize("name", ["digits", "mbv2-tiny"])
def test_the_smallest_image_goes_through(name: str) -> None:
    side = {"digits": 4, "mbv2-tiny": 8}[name]
    network = build(name, resolution=side)
    image = np.zeros((1, side, side, network.input_shape[0]), np.int8)
    assert np.isfinite(logits_of(network, image)).all()


def test_load_network_knows_the_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mbv2-tiny").mkdir()
    assert load_network("digits").input_shape == (1, 16, 16)
    assert load_network("mbv2-tiny", classes=5, resolution=40).input_shape == (3, 40, 40)
    with pytest.raises(TrainletError, match=r"did you mean digits\? accepted is .*mbv2-tiny\)"):
        load_network("digit")
    (tmp_path / "digits").write_text("a file goes first")
    with pytest.raises(TrainletError, match="digits is not a network"):
        load_network("digits")
