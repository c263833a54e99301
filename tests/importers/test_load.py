# SPDX-License-Identifier: Apache-2.0
import pickle
import zipfile
from pathlib import Path

import pytest
from tiny_pickle import network, write

from trainlet.errors import TrainletError
from trainlet.importers import load_network


def test_a_network_is_told_by_its_content_not_its_name(tmp_path: Path) -> None:
    model = load_network(write(tmp_path / "odd.name", network()), classes=9, resolution=16)
    assert (model.classes, model.input_shape) == (9, (3, 16, 16))


@pytest.mark.parametrize(
    ("content", "name", "part"),
    [
        (b"", "a.pkl", "is empty"),
        (b"\x1c\0\0\0TFL3....", "a.bin", "is a TensorFlow Lite model"),
        (pickle.dumps([1]), "a.pkl", "is a bare pickle"),
        (b"PK\x03\x04cut", "a.pkl", "is a zip that is cut short"),
        (b"\x08\x07\x12", "a.onnx", "is an ONNX model"),
        (b"hello", "a.txt", "is not a network"),
    ],
)
def test_other_files_are_named_for_what_they_are(
    tmp_path: Path, content: bytes, name: str, part: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TrainletError) as caught:
        load_network(path)
    assert part in str(caught.value)
    assert "accepted is a tiny-training network" in str(caught.value)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match="does not exist"):
        load_network(tmp_path / "none.pkl")
    with pytest.raises(TrainletError, match="cannot be read"):
        load_network(tmp_path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme", "x")
    with pytest.raises(TrainletError, match=r"holds no data\.pkl"):
        load_network(other)
