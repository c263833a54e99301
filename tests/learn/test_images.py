# SPDX-License-Identifier: Apache-2.0
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainlet.errors import TrainletError
from trainlet.learn.images import LabelledImages, load_images, split_names, to_int8


def picture(red: int, size: tuple[int, int] = (24, 16), kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (red, 20, 30)).save(stream, kind)
    return stream.getvalue()


def dataset() -> dict[str, bytes]:
    """Two splits of three classes; a pixel's red is 10 * class + image."""
    files = {
        f"{split}/{name}/{i}.png": picture(10 * label + i)
        for split in ("train", "val")
        for label, name in enumerate(("ant", "bee", "cat"))
        for i in range(3)
    }
    return files | {"train/readme.txt": b"x", "train/ant/Thumbs.db": b"x", "train/ant/.0.png": b""}


def as_folder(base: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        target = base / "data" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return base / "data"


def as_zip(base: Path, files: dict[str, bytes], top: str = "") -> Path:
    with zipfile.ZipFile(base / "data.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(top + name, content)
    return base / "data.zip"


def load(path: Path, split: str = "train", **limits: int) -> LabelledImages:
    return load_images(path, rows=8, columns=8, channels=3, split=split, **limits)


def test_a_folder_and_a_zip_give_the_same(tmp_path: Path) -> None:
    files = dataset()
    paths = [as_folder(tmp_path, files), as_zip(tmp_path, files)]
    for found in map(load, paths):
        assert found.images.shape == (9, 8, 8, 3)
        assert found.images.dtype == np.uint8
        assert found.images[:, 4, 4, 0].tolist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
        assert found.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert found.labels.dtype == np.int64
        assert (found.class_names, found.skipped) == (("ant", "bee", "cat"), ())
    assert split_names(paths[0]) == split_names(paths[1]) == ("train", "val")
    assert not list(tmp_path.glob("*/data.zip*"))


def test_a_zip_may_hold_its_splits_in_one_folder(tmp_path: Path) -> None:
    path = as_zip(tmp_path, dataset() | {"LICENSE": b"x", "__MACOSX/train/ant/0.png": b"x"}, "set/")
    assert split_names(path) == ("train", "val")
    assert len(load(path)) == 9


def test_limits_keep_the_first_classes_and_deal_images_out_evenly(tmp_path: Path) -> None:
    path = as_folder(tmp_path, dataset())
    assert load(path, classes_limit=2).class_names == ("ant", "bee")
    found = load(path, images_limit=5)
    assert found.images[:, 4, 4, 0].tolist() == [0, 1, 10, 11, 20]
    assert len(load(path, images_limit=99)) == 9
    with pytest.raises(TrainletError, match="limit of 0 classes"):
        load(path, classes_limit=0)
    with pytest.raises(TrainletError, match="limit of -1 images"):
        load(path, images_limit=-1)


def test_labels_agree_between_splits_that_have_different_classes(tmp_path: Path) -> None:
    files = {n: c for n, c in dataset().items() if not n.startswith("val/ant/")}
    found = load(as_folder(tmp_path, files), "val")
    assert found.labels.tolist() == [1, 1, 1, 2, 2, 2]
    assert found.class_names == ("ant", "bee", "cat")


def test_damaged_images_are_skipped_and_named(tmp_path: Path) -> None:
    files = dataset()
    files["train/ant/1.png"] = files["train/ant/1.png"][:40]
    files["train/bee/0.png"] = b"not an image"
    files["train/cat/3.jpg"] = picture(23, (200, 200), "JPEG")[:700]
    files["train/cat/4.png"] = b""
    bad = ("train/ant/1.png", "train/bee/0.png", "train/cat/3.jpg", "train/cat/4.png")
    for path in (as_folder(tmp_path, files), as_zip(tmp_path, files)):
        found = load(path)
        assert tuple(sorted(found.skipped)) == bad
        assert len(found) == 7
        assert len(load(path, images_limit=5)) == 5


def test_damage_inside_a_zip_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = as_zip(tmp_path, dataset())
    content = bytearray(path.read_bytes())
    at = content.index(picture(11))
    content[at + 60] ^= 0xFF
    path.write_bytes(bytes(content))
    assert load(path).skipped == ("train/bee/1.png",)


def test_an_image_is_cropped_about_its_centre_and_its_short_side_stays_whole(
    tmp_path: Path,
) -> None:
    pixels = np.zeros((16, 48, 3), np.uint8)
    pixels[:, 16:32] = 255
    pixels[0, 16:32] = 128
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    path = as_folder(tmp_path, {"train/a/0.png": stream.getvalue()})
    found = load_images(path, rows=16, columns=16, channels=3, split="train")
    np.testing.assert_array_equal(found.images[0], pixels[:, 16:32])
    wide = load_images(path, rows=4, columns=12, channels=1, split="train")
    assert wide.images.shape == (1, 4, 12, 1)
    assert wide.images[0, 2, :, 0].tolist() == pytest.approx([0] * 4 + [255] * 4 + [0] * 4, abs=40)


def test_a_very_long_image_does_not_blow_up(tmp_path: Path) -> None:
    path = as_folder(tmp_path, {"train/a/0.png": picture(9, (30000, 1))})
    found = load_images(path, rows=64, columns=64, channels=3, split="train")
    assert set(found.images[..., 0].ravel().tolist()) == {9}


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "1", "I;16"])
def test_every_mode_becomes_what_the_network_takes(tmp_path: Path, mode: str) -> None:
    stream = io.BytesIO()
    white = np.full((9, 9), 0xFFFF, np.uint16)
    image = Image.fromarray(white) if mode == "I;16" else Image.new("L", (9, 9), 255).convert(mode)
    image.save(stream, "TIFF")
    path = as_folder(tmp_path, {"train/a/0.tif": stream.getvalue()})
    for channels in (1, 3):
        found = load_images(path, rows=4, columns=4, channels=channels, split="train")
        assert found.images.shape == (1, 4, 4, channels)
        assert found.images.min() == 255


def test_a_photograph_is_turned_as_its_exif_says(tmp_path: Path) -> None:
    stream = io.BytesIO()
    image = Image.fromarray(np.repeat(np.uint8([[0] * 8, [255] * 8]), 4, axis=0))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(stream, "JPEG", exif=exif, quality=100)
    found = load(as_folder(tmp_path, {"train/a/0.jpg": stream.getvalue()}))
    assert found.images[0, :, :4].min() > 200
    assert found.images[0, :, 4:].max() < 50


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type] # arrays of any kind are what is tested
    return path


def test_arrays_with_and_without_class_names(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.uint8).repeat(64).reshape(4, 8, 8)
    y = np.array([2, 0, 1, 0], np.uint8)
    path = npz(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])
    found = load(path)
    assert found.images[:, 0, 0].tolist() == [[1] * 3, [3] * 3, [2] * 3, [0] * 3]
    assert found.labels.tolist() == [0, 0, 1, 2]
    assert found.class_names == ("0", "1", "2")
    assert split_names(path) == ("test", "train")
    assert load(path, classes_limit=2).labels.tolist() == [0, 0, 1]
    named = npz(tmp_path / "b.npz", x_train=x[..., None], y_train=y, classes=np.array(["u", "v"]))
    assert load(named).class_names == ("u", "v", "2")


def test_a_split_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match="no split 'test': it has train, val"):
        load(as_zip(tmp_path, dataset()), "test")
    files = {n: c for n, c in dataset().items() if not n.startswith("train/ant/")}
    without_ants = as_folder(tmp_path, files)
    with pytest.raises(TrainletError, match=r"no image in the classes ant$"):
        load(without_ants, classes_limit=1)


def test_paths_that_hold_no_data_set(tmp_path: Path) -> None:
    flat = as_folder(tmp_path, {"ant/0.png": picture(1)})
    with pytest.raises(TrainletError, match="holds no image: a data set is laid out split/class"):
        load(flat)
    with pytest.raises(TrainletError, match="does not exist"):
        load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(TrainletError, match="neither a folder nor an intact zip"):
        load(tmp_path / "text")
    cut = as_zip(tmp_path, dataset())
    cut.write_bytes(cut.read_bytes()[:-50])
    with pytest.raises(TrainletError, match="neither a folder nor an intact zip"):
        load(cut)
    bad = as_folder(tmp_path / "all", {"train/a/0.png": b"x", "train/a/1.png": b"x"})
    with pytest.raises(TrainletError, match=r"can be decoded: train/a/0\.png, train/a/1\.png"):
        load(bad)
    with pytest.raises(TrainletError, match="the network takes 2"):
        load_images(bad, rows=8, columns=8, channels=2, split="train")


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"x": np.zeros(3)}, "holds no images"),
        ({"x_train": np.zeros((2, 8, 8)), "y_train": np.zeros(2, int)}, "float64"),
        ({"x_train": np.zeros((2, 8), np.uint8), "y_train": np.zeros(2, int)}, "uint8"),
        ({"x_train": np.zeros((2, 8, 8), np.uint8), "y_train": np.zeros(3, int)}, "one class"),
        ({"x_train": np.zeros((1, 8, 8), np.uint8), "y_train": np.array([-1])}, "one class"),
        ({"x_train": np.zeros((1, 8, 8), np.uint8), "y_train": np.array([{}])}, "cannot be read"),
    ],
)
def test_arrays_that_are_no_images(tmp_path: Path, arrays: dict[str, object], part: str) -> None:
    with pytest.raises(TrainletError, match=part):
        load(npz(tmp_path / "a.npz", **arrays))


def test_pixels_become_int8_exactly() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    expected = np.arange(-128, 128)
    for scale in (1 / 127.5, float(np.float32(1 / 127.5))):
        np.testing.assert_array_equal(to_int8(pixels, scale, 0), expected)
    np.testing.assert_array_equal(to_int8(pixels, 2 / 255, -1)[1:], expected[:-1])
    assert to_int8(pixels, 1 / 64, 10)[[0, 255]].tolist() == [-54, 74]
    assert to_int8(pixels, 1 / 300, 0)[[0, 255]].tolist() == [-128, 127]
    assert to_int8(pixels.reshape(1, 4, 64, 1), 1 / 127.5, 0).shape == (1, 4, 64, 1)


def test_real_photographs_and_arrays(shared_dir: Path) -> None:
    found = load_images(
        shared_dir / "datasets" / "flowers102_trainval_144.zip",
        rows=128, columns=128, channels=3, split="train", classes_limit=10, images_limit=20,
    )  # fmt: skip
    assert found.images.shape == (20, 128, 128, 3)
    assert np.bincount(found.labels).tolist() == [2] * 10
    cifar = load_images(
        shared_dir / "datasets" / "cifar10_lossless_2000train_1000test.npz",
        rows=32, columns=32, channels=3, split="test",
    )  # fmt: skip
    assert len(cifar) == 1000
    assert cifar.class_names[0] == "airplane"
