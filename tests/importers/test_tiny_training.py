# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import formula
import numpy as np
import pytest
import torch
from PIL import Image
from tiny_pickle import network, write

from trainlet.errors import TrainletError
from trainlet.importers import import_tiny_training
from trainlet.importers.pickles import read_arrays
from trainlet.nn import Int8Conv2d

NETWORKS = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")


def image(count: int, resolution: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (count, 3, resolution, resolution)
    return torch.randint(-128, 128, shape, generator=generator).float()


def photo(path: Path) -> torch.Tensor:
    """Short side 146, centre crop 128, integers of scale 1/127.5 and zero 0."""
    picture = Image.open(path).convert("RGB")
    factor = 146 / min(picture.size)
    width, height = (round(side * factor) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - 128) // 2, (height - 128) // 2
    pixels = np.asarray(picture.crop((left, top, left + 128, top + 128)), np.float32)
    return torch.from_numpy((pixels - 127.5).round().clip(-128, 127).transpose(2, 0, 1).copy())


def test_module_paths_and_shapes(tmp_path: Path) -> None:
    model = import_tiny_training(write(tmp_path / "n.pkl", network()), resolution=16)
    names = [name for name, module in model.named_modules() if isinstance(module, Int8Conv2d)]
    assert names == [
        "first_conv",
        "blocks.0.depthwise",
        "blocks.0.pointwise2",
        "blocks.1.pointwise1",
        "blocks.1.depthwise",
        "blocks.1.pointwise2",
    ]
    assert model.input_shape == (3, 16, 16)
    assert model.classes == 5
    assert model(image(2, 16)).shape == (2, 5)


@pytest.mark.parametrize("resolution", [4, 15, 16])
def test_fast_mode_follows_the_pickles_formula(tmp_path: Path, resolution: int) -> None:
    data = network()
    model = import_tiny_training(write(tmp_path / "n.pkl", data), resolution=resolution)
    x = image(8, resolution)
    y = model.first_conv(x)
    for block in model.blocks:
        y = block(y)
    difference = (y.double() - formula.maps(x, data)).abs()
    assert difference.max() <= 1
    assert (difference == 0).double().mean() >= 0.999
    # The pool rounds a tie away from zero, the formula to even.
    assert (model.features(x).double() - formula.features(x, data)).abs().max() <= 1


def test_tflite_mode_stays_within_its_double_rounding(tmp_path: Path) -> None:
    data = network()
    path = write(tmp_path / "n.pkl", data)
    model = import_tiny_training(path, resolution=16, requantize="tflite")
    x = image(8, 16)
    assert (model.features(x).double() - formula.features(x, data)).abs().max() <= 2


def test_the_files_classifier_becomes_the_head(tmp_path: Path) -> None:
    data = network()
    path = write(tmp_path / "n.pkl", data)
    params = data["classifier"]["params"]
    for model in (import_tiny_training(path), import_tiny_training(path, classes=5)):
        expected = params["weight"][:, :, 0, 0] * params["w_scales"].astype(float)[:, None]
        np.testing.assert_allclose(model.head.weight.numpy(), expected, rtol=1e-6)
        expected = params["bias"] * params["w_scales"].astype(float) * params["x_scale"]
        np.testing.assert_allclose(model.head.bias.numpy(), expected, rtol=1e-6)


def test_other_classes_give_a_seeded_head(tmp_path: Path) -> None:
    path = write(tmp_path / "n.pkl", network())
    first, again, other = (
        import_tiny_training(path, classes=7, seed=seed).head.weight for seed in (1, 1, 2)
    )
    assert first.shape == (7, 6)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_saturated_bias_is_clipped(tmp_path: Path) -> None:
    data = network()
    data["first_conv"]["params"]["bias"][:2] = [2**31 - 1, -(2**31)]
    model = import_tiny_training(write(tmp_path / "n.pkl", data), resolution=16)
    limit = 2**31 - 1 - 27 * 127 * 255
    assert model.first_conv.bias[:2].tolist() == [limit, -limit]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"resolution": 0}, "resolution is 0; it must lie in 1 .. 2048"),
        ({"resolution": 9000}, "resolution is 9000"),
        (
            {"resolution": 1},
            "images of 1 x 1: first_conv (stride 2) finds 1 x 1 pixels; the smallest that suits "
            "is 2",
        ),
        ({"classes": 1}, "classes is 1; it must lie in 2 .."),
        ({"requantize": "slow"}, "requantize is 'slow'; it must be one of fast, tflite"),
    ],
)
def test_arguments_that_do_not_suit(tmp_path: Path, arguments: Any, part: str) -> None:
    path = write(tmp_path / "n.pkl", network())
    with pytest.raises(TrainletError) as caught:
        import_tiny_training(path, **arguments)
    assert part in str(caught.value)


def test_an_even_kernel_whose_sum_does_not_fit_is_refused(tmp_path: Path) -> None:
    data = network()
    conv = data["blocks"][1]["depthwise"]
    conv["kernel_size"] = (2, 2)
    conv["params"]["weight"] = conv["params"]["weight"][:, :, :2, :2].copy()
    with pytest.raises(TrainletError, match=r"blocks\.1 adds 8 x 8 pixels to 7 x 7; no resolution"):
        import_tiny_training(write(tmp_path / "n.pkl", data), resolution=16)


def test_a_scale_that_fast_mode_cannot_express_names_its_layer(tmp_path: Path) -> None:
    data = network()
    data["blocks"][0]["depthwise"]["params"]["w_scales"][:] = 3.0
    path = write(tmp_path / "n.pkl", data)
    with pytest.raises(TrainletError, match=r"blocks\.0\.depthwise: .*use mode 'tflite'"):
        import_tiny_training(path, resolution=16)
    assert import_tiny_training(path, resolution=16, requantize="tflite")


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("mode", "equal", "others"), [("fast", 0.75, 0), ("tflite", 0.2, 2)])
def test_photographs_are_classified_as_by_the_pickles_formula(
    shared_dir: Path, name: str, mode: str, equal: float, others: int
) -> None:
    path = shared_dir / "models/tiny-training" / f"{name}.pkl"
    data = read_arrays(path)
    assert isinstance(data, dict)
    photos = sorted((shared_dir / "models/photos").glob("*.jpg"))
    x = torch.stack([photo(file) for file in photos])
    model = import_tiny_training(path, requantize=mode)
    expected = formula.features(x, data)
    same = (model.features(x).double() == expected).double().mean()
    assert same >= equal
    agreeing = model(x).argmax(1) == formula.logits(expected, data).argmax(1)
    assert int(agreeing.sum()) >= len(photos) - others
