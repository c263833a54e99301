# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Call, Fails

from trainlet.cli import main
from trainlet.errors import TrainletError

VERBS = ("devices", "analyze", "compile", "emulate", "demo")


def test_the_version(call: Call) -> None:
    ended = call("--version")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("trainlet 0.")


@pytest.mark.parametrize("verb", [(), *((verb,) for verb in VERBS)])
def test_every_help_has_an_example(call: Call, verb: tuple[str, ...]) -> None:
    ended = call(*verb, "--help")
    assert ended.status == 0
    assert f"Example: {' '.join(('trainlet', *verb))}" in " ".join(ended.out.split())


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("devices", "--nonsense"), ("compile", "x.pkl"), ("emulate", "x", "--steps=z")],
)
def test_wrong_usage_has_status_2(call: Call, arguments: tuple[str, ...]) -> None:
    ended = call(*arguments)
    assert ended.status == 2
    assert "--help" in ended.err


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (TrainletError("no [bold]good[/bold]"), 2, "trainlet: error: no [bold]good[/bold]\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "'/x': Permission denied\n"),
        (OSError(28, "No space left on device"), 2, "trainlet: error: No space left on device\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_a_line_and_a_status(
    call: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, line: str
) -> None:
    def broken(name: str) -> None:
        raise error

    monkeypatch.setattr("trainlet.cli.devices.load_device", broken)
    ended = call("devices", "any")
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.endswith(line)


def test_a_process_ends_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainlet.cli.main", "devices", str(tmp_path / "none.toml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"trainlet: error: device file {tmp_path}/none.toml does not exist\n"


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m trainlet.cli.main devices --json | head -c 1"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("[", "")


def test_help_loads_no_pytorch() -> None:
    code = "import sys, trainlet.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_main_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["trainlet", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0


def test_an_unknown_device_is_named_with_its_neighbours(fails: Fails) -> None:
    assert "did you mean stm32f746" in fails("devices", "stm32f747")
