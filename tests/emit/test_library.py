# SPDX-License-Identifier: Apache-2.0
"""The emitted library as a user meets it: what it compiles to, and what its calls promise."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from torch import nn

from random_networks import Maker, as_tensor
from sample_network import (
    RATES,
    sample_image,
    sample_network,
    sample_program,
    write_emitted,
)
from trainlet.build import build_program
from trainlet.devices import MemoryMap
from trainlet.emit import Program, check_prefix, context_bytes, emit_library
from trainlet.errors import TrainletError
from trainlet.graph import Role
from trainlet.nn import FloatHead, Int8Network, Quantization, apply_scheme
from trainlet.run import EmulatedDevice, HostLibrary, build_firmware
from trainlet.run.library import STATUS_LABEL, STATUS_NOT_INITIALIZED, STATUS_OK
from trainlet.run.objects import Source, compile_objects
from trainlet.run.sanitized import run_sanitized
from trainlet.run.toolchain import find_toolchain
from trainlet.scheme import Scheme, everything, head_only

STRICT = {"-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"}
ROOMY = MemoryMap(0x08000000, 1 << 20, 0x20000000, 1 << 20)


@pytest.fixture(scope="module")
def program() -> Program:
    return sample_program()


@pytest.fixture(scope="module")
def folder(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_emitted(program, tmp_path_factory.mktemp("library"))


@pytest.fixture
def host(folder: Path) -> Iterator[HostLibrary]:
    with HostLibrary(folder, "net") as library:
        yield library


def context_of(host: HostLibrary, program: Program) -> bytes:
    """Every byte of the library's memory."""
    start = host.input().ctypes.data - program.step.plan.addresses["image"]
    return ctypes.string_at(start, context_bytes(program))


# ---- compiling ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("core", ["host", "cortex-m7", "cortex-m4", "cortex-m0plus"])
@pytest.mark.parametrize("mode", ["fast", "tflite"])
def test_it_compiles_without_a_warning(core: str, mode: str, tmp_path: Path) -> None:
    toolchain = find_toolchain(core)
    assert set(toolchain.compile_flags) >= STRICT
    folder = write_emitted(sample_program(mode), tmp_path)
    compile_objects(toolchain, [Source(path, (folder,)) for path in sorted(folder.glob("*.c"))])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [head_only(), everything()], ids=lambda scheme: scheme.name)
def test_every_scheme_compiles_without_a_warning(scheme: Scheme, tmp_path: Path) -> None:
    folder = write_emitted(sample_program(scheme=scheme), tmp_path)
    sources = [Source(path, (folder,)) for path in sorted(folder.glob("*.c"))]
    compile_objects(find_toolchain("cortex-m7"), sources)


def symbols_of(folder: Path, core: str) -> tuple[set[str], dict[str, tuple[str, int]], set[str]]:
    """(undefined names, writable objects with section and size, defined global names)."""
    sources = [Source(path, (folder,)) for path in sorted(folder.glob("*.c"))]
    undefined, writable, public = set(), {}, set()
    for path in compile_objects(find_toolchain(core), sources):
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            table = elf.get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            for symbol in table.iter_symbols():
                if symbol["st_shndx"] == "SHN_UNDEF":
                    undefined.add(symbol.name)
                elif isinstance(symbol["st_shndx"], int):
                    section = elf.get_section(symbol["st_shndx"])
                    if symbol["st_info"]["type"] == "STT_OBJECT" and section["sh_flags"] & 1:
                        writable[symbol.name] = (section.name, symbol["st_size"])
                    if symbol["st_info"]["bind"] == "STB_GLOBAL":
                        public.add(symbol.name)
                else:
                    assert symbol["st_shndx"] == "SHN_ABS"  # no COMMON
    return undefined - public - {""}, writable, public


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m4"])
def test_it_needs_no_function_from_outside(folder: Path, core: str) -> None:
    assert symbols_of(folder, core)[0] == set()


@pytest.mark.slow
def test_without_floating_point_it_needs_the_compilers_own_functions_alone(folder: Path) -> None:
    assert all(name.startswith("__aeabi_") for name in symbols_of(folder, "cortex-m0plus")[0])


def test_its_one_writable_object_is_the_context(folder: Path, program: Program) -> None:
    _, writable, public = symbols_of(folder, "cortex-m7")
    state = context_bytes(program) - program.step.plan.arena_bytes - program.trainable_bytes
    assert writable == {"context": (".bss.context", context_bytes(program))}
    assert 24 <= state <= 24 + 16  # six words and what alignment adds
    assert all(name.startswith("net_") for name in public)


def test_the_header_is_good_twice_and_in_cpp(folder: Path, tmp_path: Path) -> None:
    text = '#include "net.h"\n#include "net.h"\nint use(void);\n'
    text += "int use(void) { net_init(1u); return net_predict(); }\n"
    for name, command, flags in (("use.c", "cc", ["-std=c11"]), ("use.cpp", "c++", [])):
        source = tmp_path / name
        source.write_text(text)
        result = subprocess.run(
            [
                *(sys.executable, "-m", "ziglang", command, "-target", "x86_64-linux-gnu", *flags),
                *("-Wall", "-Wextra", "-Werror", "-I", str(folder), "-c", str(source)),
                *("-o", str(tmp_path / f"{name}.o")),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr


def test_the_text_is_deterministic(program: Program) -> None:
    assert emit_library(program, "net", RATES) == emit_library(sample_program(), "net", RATES)


PAIR_H = """\
#include "first.h"
#include "second.h"
#define PAIR_INPUT_BYTES 144
#define PAIR_CLASSES 8
#define PAIR_TRAINABLE_BYTES 0
void pair_init(uint32_t seed);
int8_t *pair_input(void);
int pair_predict(void);
const float *pair_logits(void);
int pair_train_step(uint32_t label);
float pair_loss(void);
void pair_set_learning_rate(float backbone, float head);
uint8_t *pair_trainables(void);
"""
PAIR_C = """\
#include "pair.h"
static int8_t image[PAIR_INPUT_BYTES];
static float logits[PAIR_CLASSES];
static void give(int8_t *to) { for (int i = 0; i < PAIR_INPUT_BYTES; i++) { to[i] = image[i]; } }
static int answer(int first, int second) {
    for (int i = 0; i < 4; i++) {
        logits[i] = first_logits()[i];
        logits[4 + i] = second_logits()[i];
    }
    return first + second;
}
void pair_init(uint32_t seed) { first_init(seed); second_init(seed + 1u); }
int8_t *pair_input(void) { return image; }
int pair_predict(void) {
    give(first_input());
    give(second_input());
    int first = first_predict();
    return answer(first, second_predict());
}
const float *pair_logits(void) { return logits; }
int pair_train_step(uint32_t label) {
    give(first_input());
    give(second_input());
    int first = first_train_step(label);
    return answer(first, second_train_step(label));
}
float pair_loss(void) { return first_loss() + second_loss(); }
void pair_set_learning_rate(float b, float h) { first_set_learning_rate(b, h); }
uint8_t *pair_trainables(void) { return first_trainables(); }
"""


@pytest.mark.slow
def test_two_libraries_work_in_one_firmware(program: Program, tmp_path: Path) -> None:
    other = sample_program("tflite", everything())
    alone = []
    for prefix, made, seed in (("first", program, 5), ("second", other, 6)):
        write_emitted(made, tmp_path / "pair", prefix)
        host = HostLibrary(write_emitted(made, tmp_path / prefix, prefix), prefix)
        host.init(seed)
        alone.append(host)
    (tmp_path / "pair" / "pair.h").write_text(PAIR_H)
    (tmp_path / "pair" / "pair.c").write_text(PAIR_C)
    firmware = build_firmware(
        tmp_path / "pair", "pair", core="cortex-m7", memory=ROOMY, target=tmp_path / "pair.elf"
    )
    device = EmulatedDevice(firmware)
    device.init(5)
    for step in range(3):
        image = sample_image(step)
        assert [m.train_step(image, step) for m in (device, *alone)] == [STATUS_OK] * 3
        expected = np.concatenate([host.logits() for host in alone])
        np.testing.assert_array_equal(device.logits(), expected)
    for host in alone:
        host.close()


# ---- what the calls promise ---------------------------------------------------------------


def test_a_label_out_of_range_changes_no_byte(host: HostLibrary, program: Program) -> None:
    host.init(1)
    host.train_step(sample_image(), 1)
    host.input()[:] = sample_image(1).reshape(-1)
    before = context_of(host, program)
    for label in (program.classes, 2**31, 2**32 - 1):
        assert host.train_step(sample_image(1), label) == STATUS_LABEL
        assert context_of(host, program) == before
    assert host.train_step(sample_image(1), program.classes - 1) == STATUS_OK


def test_a_call_before_init_changes_no_byte(host: HostLibrary, program: Program) -> None:
    host.input()[:] = sample_image().reshape(-1)
    before = context_of(host, program)
    assert host.predict(sample_image()) == STATUS_NOT_INITIALIZED
    assert host.train_step(sample_image(), 0) == STATUS_NOT_INITIALIZED
    assert host.train_step(sample_image(), 99) == STATUS_NOT_INITIALIZED
    assert context_of(host, program) == before


def trajectory(host: HostLibrary, steps: int = 4) -> list[object]:
    """Loss, logits and weights of each step."""
    seen: list[object] = [host.trainables().tobytes()]
    for step in range(steps):
        assert host.train_step(sample_image(step), step % 4) == STATUS_OK
        seen += [host.loss(), host.logits().tobytes(), host.trainables().tobytes()]
    return seen


def test_init_restores_everything(host: HostLibrary) -> None:
    host.init(7)
    first = trajectory(host)
    assert len(set(first[0::3])) > 1  # it does learn
    host.set_learning_rate(0.5, 0.5)
    trajectory(host, 2)
    host.init(7)
    assert host.loss() == 0.0
    assert trajectory(host) == first


def test_the_weights_that_init_sets_are_the_networks(host: HostLibrary, program: Program) -> None:
    host.init(7)
    block = host.trainables()
    for value in program.step.graph.with_role(Role.PARAMETER):
        data = program.stored(value).view(np.uint8)
        start = program.trainable_offsets[value.name]
        np.testing.assert_array_equal(block[start : start + data.size], data)


def test_same_seed_same_bits_other_seed_other_bits(host: HostLibrary) -> None:
    runs = []
    for seed in (3, 3, 4):
        host.init(seed)
        runs.append(trajectory(host))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_learning_rate_of_zero_trains_nothing(host: HostLibrary) -> None:
    host.init(1)
    host.set_learning_rate(0.0, 0.0)
    assert len(set(trajectory(host)[0::3])) == 1
    host.set_learning_rate(0.0, 0.1)
    assert len(set(trajectory(host)[0::3])) == 5


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e30, -1e30, float("inf"), float("nan")])
def test_an_absurd_learning_rate_harms_no_other_memory(folder: Path, rate: float) -> None:
    calls = [(sample_image(step), step % 4) for step in range(3)]
    run = run_sanitized(folder, "net", calls, learning_rates=(rate, 0.0))
    assert run.statuses == [STATUS_OK] * 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "tflite"])
def test_steps_are_clean_under_the_sanitizers(mode: str, tmp_path: Path) -> None:
    folder = write_emitted(sample_program(mode, everything()), tmp_path)
    calls = [(sample_image(step), step % 4) for step in range(3)]
    run = run_sanitized(folder, "net", [*calls, (sample_image(), None)], learning_rates=(0.02, 0.1))
    assert run.statuses == [STATUS_OK] * 4


# ---- names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix",
    ["", "Net", "9net", "_net", "a-b", "a b", "né", "net\n", "tl", "stdint", "math", "one"],
)
def test_a_prefix_that_c_cannot_take_is_refused(prefix: str) -> None:
    with pytest.raises(TrainletError, match="cannot prefix C names"):
        check_prefix(prefix)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["while", "context"])
def test_a_prefix_that_c_can_take_compiles(prefix: str, tmp_path: Path) -> None:
    assert check_prefix(prefix) == prefix
    folder = write_emitted(sample_program(scheme=head_only()), tmp_path, prefix)
    with HostLibrary(folder, prefix) as host:
        host.init(1)
        assert host.train_step(sample_image(), 0) == STATUS_OK


def test_values_whose_names_look_alike_in_c_stay_apart(tmp_path: Path) -> None:
    """`a.b_c` and `a_b.c` would both be a_b_c."""
    maker, x = Maker(3, "fast"), torch.full((1, 2, 4, 4), 7.0)
    first, y = maker.conv(x, Quantization(0.01, 0), 3)
    second, y = maker.conv(y, first.y, 3)
    third, y = maker.conv(y, second.y, 3)
    inner, outer = nn.Sequential(), nn.Sequential()
    inner.add_module("b_c", second)
    outer.add_module("c", third)
    block = nn.Sequential()
    block.add_module("a", inner)
    block.add_module("a_b", outer)
    head = FloatHead(3, 2, third.y)
    network = Int8Network(first, [block], head, input_shape=(2, 4, 4))
    apply_scheme(network, head_only())
    folder = write_emitted(build_program(network, "alike"), tmp_path)
    image = np.arange(32, dtype=np.int8).reshape(4, 4, 2)
    with HostLibrary(folder, "net") as host, torch.no_grad():
        host.init(0)
        assert host.predict(image) == STATUS_OK
        np.testing.assert_array_equal(host.logits(), network(as_tensor(image))[0].numpy())


def test_names_that_end_a_comment_harm_nothing(tmp_path: Path) -> None:
    network = sample_network()
    strange = nn.Sequential()
    strange.add_module("é*/x/*/?", network.blocks[2])
    network.blocks[2] = strange
    apply_scheme(network, head_only())
    folder = write_emitted(build_program(network, "a */ name /* \\"), tmp_path)
    sources = [Source(path, (folder,)) for path in sorted(folder.glob("*.c"))]
    compile_objects(find_toolchain("cortex-m7"), sources)
