"""Another runtime's programs on boards: what is counted, the file of figures, and what programs are refused for.

The other runtime is ours, in a bundle: what it takes is known.
"""

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.parser import Parser

import qmlir
from qmlir.backends.cpu import Executable
from qmlir.errors import FileError, OptionError, QmlirError
from qmlir.ir.context import make_context
from tests.backends.cpu import programs
from tests.backends.cpu.programs import BOARDS
from tests.models import boards, everywhere
from tests.models.boards import Measured, beside, chosen_programs, loaded_bytes, measured, text_of
from tests.models.everywhere import figures_of, inputs_of

ON_BOARD = Path(boards.__file__).with_name("on_board")

SOURCE = """
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x2xi32> {
  %w = nn.constant <tensor<2x4xi8>, [1, -2, 3, 4, 5, -6, 7, 8]> : tensor<2x4xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 0 : i32} : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  func.return %acc : tensor<1x2xi32>
}
"""

GLUE = """
#include <stdint.h>
#include "network.h"

extern void net(const void *weights, void *arena, const void *const *inputs, void *const *outputs);
static int8_t input[4];
static int32_t output[2];
static char arena[ARENA] __attribute__((aligned(64)));
static const unsigned char weights[] __attribute__((aligned(64))) = {WEIGHTS};
static int ready;

__attribute__((constructor)) static void construct(void) { ready = 1; }

int network_begin(struct network *network) {
  const struct network found = {input, output, sizeof input, sizeof output - SHORT, sizeof arena + 12};
  *network = found;
  return !ready || FAIL == 1;
}

int network_run(void) {
  const void *const inputs[] = {input};
  void *const outputs[] = {output};
  net(weights, arena, inputs, outputs);
  return FAIL == 2;
}
"""

SHAPE, TYPE = (1, 2), np.dtype(np.int32)


def executable(cpu: str) -> Executable:
    return qmlir.compile(Parser(make_context(), SOURCE).parse_module(), cpu=cpu, memory="small")


def program(folder: Path, cpu: str, *, fail: int = 0, short: int = 0, around: bool = True) -> Path:
    """A program of the small network, linked as the documentation says."""
    for name in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here")
    made = executable(cpu)
    (folder / "net.o").write_bytes(made.object)
    (folder / "network.c").write_text(GLUE.replace("net(", f"{made.entry}("))
    board, weights = BOARDS[cpu], ",".join(map(str, made.weights.tobytes())) or "0"
    settings = [f"-DARENA={max(1, made.sizes.arena)}", f"-DWEIGHTS={weights}", f"-DFAIL={fail}", f"-DSHORT={short}"]
    gcc = ["arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", "-O2", f"-I{ON_BOARD}"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffreestanding", "-c"]
    subprocess.run([*gcc, *strict, ON_BOARD / "around.c", "-o", "around.o"], cwd=folder, check=True)
    subprocess.run([*gcc, *strict, *settings, "network.c", "-o", "network.o"], cwd=folder, check=True)
    if not around:
        (folder / "around.o").rename(folder / "other.o")
    places = [f"-Wl,--defsym=memory={board.memory:#x}", f"-Wl,--defsym=stack_top={board.stack:#x}"]
    objects = ["around.o" if around else "other.o", "network.o", "net.o"]
    link = [
        *gcc,
        "-nostdlib",
        "-Wl,--gc-sections,--no-warn-rwx-segments,-z,noexecstack",
        *places,
        "-T",
        ON_BOARD / "board.ld",
        *objects,
        "-o",
        "net.elf",
    ]
    subprocess.run(link, cwd=folder, check=True)
    return folder / "net.elf"


@pytest.mark.parametrize("cpu", BOARDS)
def test_what_is_counted_is_what_ours_takes(cpu: str, tmp_path: Path) -> None:
    made, samples = executable(cpu), inputs_of((1, 4), np.dtype(np.int8), 5)
    found = measured(program(tmp_path, cpu), cpu, samples, SHAPE, TYPE)
    ours = programs.ran(made, [[sample] for sample in samples])
    for got, (want,) in zip(found.outputs, ours.outputs, strict=True):
        np.testing.assert_array_equal(got, want)
    # A tick is 31 to 40 instructions, and the call goes through a function more.
    assert abs(found.instructions - sum(ours.instructions) / 5) <= 3 * BOARDS[cpu].tick
    assert found.memory == max(1, made.sizes.arena) + 4 + 8
    ours_size = made.sizes.code + made.sizes.weights
    assert ours_size <= found.size < ours_size + 400  # network.c, and constants aligned


def test_the_program_around_is_not_counted(tmp_path: Path) -> None:
    path = program(tmp_path, "cortex-m4")
    shown = subprocess.run(["arm-none-eabi-size", "-A", path], capture_output=True, text=True, check=True)
    lines = [line.split() for line in shown.stdout.splitlines()]
    sizes = {words[0]: int(words[1]) for words in lines if len(words) == 3 and words[0].startswith(".")}
    loaded = (".text", ".ARM.extab", ".ARM.exidx", ".constructors", ".data")
    assert sizes[".around"] > 100
    assert loaded_bytes(path.read_bytes(), path) == sum(sizes.get(name, 0) for name in loaded)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"fail": 1}, "must end with the status 0, got 1"),
        ({"fail": 2}, "must end with the status 0, got 2"),
        ({"short": 4}, "must write 4 bytes and 12 for each of 3 inputs, got 28 bytes"),
        ({"around": False}, "must have a section .around, got none"),
    ],
)
def test_programs_that_are_refused(settings: dict[str, int], error: str, tmp_path: Path) -> None:
    path = program(tmp_path, "cortex-m4", **settings)  # pyright: ignore
    with pytest.raises(FileError) as caught:
        measured(path, "cortex-m4", inputs_of((1, 4), np.dtype(np.int8), 3), SHAPE, TYPE)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF\x02\x01" + bytes(100),
        b"\x7fELF\x01\x01" + bytes(20),
        b"\x7fELF\x01\x01" + bytes(26) + struct.pack("<I12x3H", 900, 40, 3, 2),
    ],
)
def test_files_that_are_no_programs(content: bytes) -> None:
    with pytest.raises(FileError, match="must be a"):
        loaded_bytes(content, Path("net.elf"))


def test_without_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match=r"must have qemu-system-arm, got none; apt-get install"):
        measured(tmp_path / "net.elf", "cortex-m4", [], SHAPE, TYPE)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["kwz"], "NETWORK: must be one of kws, resnet8, vww, ad, mnist, got kwz"),
        (["--cpu", "cortex-m5"], "--cpu: must be a processor with a board, got cortex-m5; did you mean"),
        (["--inputs", "0"], "--inputs: must be at least 1, got 0"),
        (["-o", "nowhere/file.json"], "must be writable"),
        ([], "must have programs CPU/NETWORK.elf of these names, got none"),
    ],
)
def test_a_sentence_says_what_is_wrong(
    words: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert boards.main([str(tmp_path), *words]) == 1
    assert error in capsys.readouterr().err


def test_programs_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / cpu / f"{name}.elf" for cpu in ("cortex-m4", "cortex-m7") for name in ("kws", "ad")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.setattr(boards, "networks", lambda: {"kws_i8": None, "ad_i8": None})
    found = chosen_programs(tmp_path, [], [])
    assert {path for programs in found.values() for path in programs.values()} == set(paths)
    assert chosen_programs(tmp_path, ["ad"], ["cortex-m7"]) == {"ad": {"cortex-m7": paths[3]}}
    monkeypatch.setattr(boards, "networks", dict)
    with pytest.raises(QmlirError, match="must have the network kws, got none; set QMLIR_SHARED"):
        chosen_programs(tmp_path, [], [])


def test_the_file_is_one_that_everywhere_takes(tmp_path: Path) -> None:
    found = {name: {"cortex-m4": Measured([], 99.6, 20, 30).figures()} for name in ("kws", "ad")}
    found["ad"]["cortex-m55"] = Measured([], 7, 8, 9).figures()
    (tmp_path / "figures.json").write_text(text_of('Other "runtime"', found))
    runtime, figures = figures_of(tmp_path / "figures.json")
    assert runtime == 'Other "runtime"'
    assert figures == {
        "cortex-m4": {n: {"instructions": 100, "memory": 20, "code and constants": 30} for n in ("kws", "ad")},
        "cortex-m55": {"ad": {"instructions": 7, "memory": 8, "code and constants": 9}},
    }


def test_the_recorded_file_is_of_this_form() -> None:
    runtime, figures = figures_of(everywhere.BESIDE)
    names = {name: None for networks in figures.values() for name in networks}
    found = {name: {cpu: dict(networks[name]) for cpu, networks in figures.items()} for name in names}
    assert text_of(runtime, found) == everywhere.BESIDE.read_text()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "no such file"),
        ("[", "a file of another form"),
        ("[]", "a file of another form"),
        ("{}", "a file of another form"),
        (json.dumps({"runtime": "x", "cortex-m4": {"kws": 3}}), "a file of another form"),
        (json.dumps({"runtime": "x", "cortex-m4": {"kws": {"instructions": 3}}}), "a file of another form"),
        (text_of("x", {"kws": {"cortex-m4": Measured([], 0, 1, 1).figures()}}), "kws without them"),
    ],
)
def test_files_that_everywhere_refuses(
    content: str | None, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FileError, match=error):
        figures_of(path)
    if everywhere.networks().get("kws_i8"):
        assert everywhere.main(["kws", "--cpu", "cortex-m4", "--beside", str(path)]) == 1
        assert error in capsys.readouterr().err


def test_the_distance_of_outputs_is_in_steps() -> None:
    own = [np.array([[1, -128]], np.int8), np.array([[3, 4]], np.int8)]
    others = [np.array([[1, 127]], np.int8), np.array([[3, 4]], np.int8)]
    assert beside(own, others).split() == ["1", "of", "2", "255"]
