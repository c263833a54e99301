# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_pickle import network, write, write_bytes

from trainlet.errors import TrainletError
from trainlet.importers.pickles import holds_pickle, read_arrays


class Reduces:
    """Pickles to a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def test_arrays_and_plain_data_come_back(tmp_path: Path) -> None:
    data = {
        "floats": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        "big": np.arange(4, dtype=">i4"),
        "scalar": np.float64(2.5),
        "list": [1, 2.5, None, True, "text", b"bytes", (1, 2)],
    }
    read = read_arrays(write(tmp_path / "a.pkl", data))
    assert isinstance(read, dict)
    assert read["list"] == data["list"]
    assert read["scalar"] == 2.5
    for name in ("floats", "fortran", "big"):
        np.testing.assert_array_equal(read[name], data[name])
        assert read[name].dtype == data[name].dtype


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_every_zip_protocol_is_read(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"a": np.arange(3, dtype=np.int8)}, protocol=protocol)
    read = read_arrays(write_bytes(tmp_path / "a.pkl", data))
    assert isinstance(read, dict)
    assert read["a"].tolist() == [0, 1, 2]


def test_a_command_is_refused_and_not_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    path = write(tmp_path / "a.pkl", Reduces(os.system, f"touch {victim}"))
    with pytest.raises(TrainletError, match=r"refused: it asks for posix\.system") as caught:
        read_arrays(path)
    assert "\n" not in str(caught.value)
    assert not victim.exists()


@pytest.mark.parametrize(
    "function",
    [eval, exec, __import__, getattr, open, pickle.loads, np.load, np.fromfile, os.remove],
)
def test_every_other_global_is_refused(tmp_path: Path, function: Any) -> None:
    path = write(tmp_path / "a.pkl", Reduces(function, "x"))
    with pytest.raises(TrainletError, match="refused: it asks for"):
        read_arrays(path)


def test_a_dotted_name_does_not_reach_through_an_allowed_module(tmp_path: Path) -> None:
    # STACK_GLOBAL with a dotted name would walk attributes: numpy -> os -> system.
    data = b"\x80\x04\x8c\x05numpy\x8c\x13core.os.system.here\x93."
    with pytest.raises(TrainletError, match="refused"):
        read_arrays(write_bytes(tmp_path / "a.pkl", data))


def test_tensors_are_refused(tmp_path: Path) -> None:
    data = b"\x80\x02X\x01\x00\x00\x00aQ."
    with pytest.raises(TrainletError, match="refused: it holds torch tensors"):
        read_arrays(write_bytes(tmp_path / "a.pkl", data))


def test_altering_an_allowed_function_is_refused(tmp_path: Path) -> None:
    data = b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb."
    with pytest.raises(TrainletError, match="tries to alter a function"):
        read_arrays(write_bytes(tmp_path / "a.pkl", data))


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (np.array([object()]), "'O8', which is not a number"),
        (np.array(["text"]), "'U4', which is not a number"),
        (np.zeros(2, "c16"), "'c16', which is not a number"),
        ({(1, 2): 3}, "keys are no texts"),
        (np.dtype("i1"), "holds a Dtype where data is expected"),
        (np.ndarray, "holds a Global where data is expected"),
        (Reduces(np.ndarray, (1 << 40,)), "unusual way"),
        ({1, 2}, "refused"),
    ],
)
def test_what_is_not_an_array_of_numbers_is_refused(tmp_path: Path, value: Any, part: str) -> None:
    path = write(tmp_path / "a.pkl", [value])
    with pytest.raises(TrainletError) as caught:
        read_arrays(path)
    assert part in str(caught.value)


def test_an_array_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    whole = pickle.dumps(np.arange(8, dtype=np.int8), protocol=2)
    data = whole.replace(b"K\x08\x85", b"K\x7f\x85")
    assert data != whole
    with pytest.raises(TrainletError, match=r"shape \(127,\) with 8 bytes"):
        read_arrays(write_bytes(tmp_path / "a.pkl", data))


def test_a_pickle_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    bomb: list[Any] = [0] * 100
    for _ in range(12):
        bomb = [bomb] * 100
    path = write(tmp_path / "a.pkl", [np.zeros(8 << 20, np.int8), bomb])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainlet.importers.pickles._LARGEST", 9 << 20)
        with pytest.raises(TrainletError, match="unfolds to more"):
            read_arrays(path)
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(TrainletError, match="damaged"):
        read_arrays(write(tmp_path / "b.pkl", itself))


def test_a_huge_data_pkl_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainlet.importers.pickles._LARGEST", 1000)
    with pytest.raises(TrainletError, match="at most 1000 are read"):
        read_arrays(write(tmp_path / "a.pkl", b"x" * 2000))


def test_a_file_cut_short_anywhere_gives_one_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.pkl", network()).read_bytes()
    path = tmp_path / "cut.pkl"
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(TrainletError) as caught:
            read_arrays(path)
        assert "\n" not in str(caught.value)


def test_a_pickle_cut_short_inside_its_zip_gives_one_line(tmp_path: Path) -> None:
    whole = pickle.dumps(network(), protocol=2)
    for length in range(0, len(whole), 211):
        path = write_bytes(tmp_path / "cut.pkl", whole[:length])
        with pytest.raises(TrainletError, match=r"does not unpickle|refused"):
            read_arrays(path)


def test_damaged_bytes_never_get_through_as_another_error(tmp_path: Path) -> None:
    whole = pickle.dumps(network(), protocol=2)
    generator = random.Random(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path = write_bytes(tmp_path / "damaged.pkl", bytes(damaged))
        with contextlib.suppress(TrainletError):
            read_arrays(path)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no torch zip"),
        (b"hello", "no torch zip"),
        (pickle.dumps({}), "no torch zip"),
    ],
)
def test_files_that_are_no_zip(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(content)
    assert not holds_pickle(path)
    with pytest.raises(TrainletError, match=part):
        read_arrays(path)


def test_zips_and_paths_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "x")
    with pytest.raises(TrainletError, match=r"zip with 0 data\.pkl"):
        read_arrays(path)
    with pytest.raises(TrainletError, match="does not exist"):
        read_arrays(tmp_path / "none.pkl")
    with pytest.raises(TrainletError, match="cannot be read"):
        read_arrays(tmp_path)
