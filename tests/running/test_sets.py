"""Sets of files: all of them appear or none, over an older version, with a full disk, when killed, and from threads."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import qmlir
from qmlir.errors import FileError
from qmlir.running.files import JOURNAL, replacing, settle, staged_at, together, write_together, write_whole
from tests.cli.small import Small, run, write_small

NAMES = ("net.mlir", "net.safetensors", "net.json")


def writers(folder: Path, text: str) -> dict[Path, Callable[[Path], object]]:
    return {folder / name: lambda to: to.write_text(text) for name in NAMES}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def of(text: str) -> dict[str, str]:
    return dict.fromkeys(sorted(NAMES), text)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder with an older version of the set."""
    write_together(writers(tmp_path, "old"))
    assert contents(tmp_path) == of("old")
    return tmp_path


def test_a_set_replaces_an_older_one(older: Path) -> None:
    write_together(writers(older, "new"))
    assert contents(older) == of("new")


def test_a_full_disk_leaves_the_older_version(older: Path) -> None:
    given = writers(older, "new")

    def full(to: Path) -> None:
        to.write_text("n")
        raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match=r"net\.safetensors: must be writable, got no space left on device"):
        write_together({**given, older / NAMES[1]: full})
    assert contents(older) == of("old")


@pytest.mark.parametrize("there", [True, False], ids=["over an older version", "in an empty folder"])
@pytest.mark.parametrize("fails", range(3))
def test_a_rename_that_fails_brings_the_previous_files_back(
    fails: int, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        write_together(writers(tmp_path, "old"))
    rename = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == NAMES[fails] and self.read_text() == "new":
            raise PermissionError(1, "Operation not permitted")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(FileError, match=f"{NAMES[fails]}: must be writable, got operation not permitted"):
        write_together(writers(tmp_path, "new"))
    assert contents(tmp_path) == (of("old") if there else {})


def test_a_folder_in_the_place_of_a_file_stops_the_whole_set(tmp_path: Path) -> None:
    (tmp_path / NAMES[1]).mkdir()
    with pytest.raises(FileError, match=r"net\.safetensors: must be writable, got a folder"):
        write_together(writers(tmp_path, "new"))
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[1]]


KILLED = """
import os, signal, sys
from pathlib import Path
from qmlir.running.files import write_together
folder, at = Path(sys.argv[1]), sys.argv[2]
rename = Path.replace
def killing(self, target):
    if target.name == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.replace = killing
write_together({folder / name: lambda to: to.write_text("new") for name in sys.argv[3:]})
"""


def killed(folder: Path, at: str) -> None:
    """Writes a set in a process that is killed before the file named `at` is renamed."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder), at, *NAMES], check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("at", NAMES[1:])
def test_the_next_reader_brings_back_what_a_killed_process_replaced(older: Path, at: str) -> None:
    killed(older, at)
    assert (older / NAMES[0]).read_text() == "new"
    settle(older / NAMES[0])
    assert {name: (older / name).read_text() for name in sorted(NAMES)} == of("old")
    assert not (older / JOURNAL).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_next_writer_replaces_the_whole_set(older: Path) -> None:
    killed(older, NAMES[2])
    write_together(writers(older, "newer"))
    assert {name: (older / name).read_text() for name in sorted(NAMES)} == of("newer")
    assert not (older / JOURNAL).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_another_program_wrote_since_then_stays(older: Path) -> None:
    killed(older, NAMES[2])
    (older / NAMES[0]).write_text("by hand")
    settle(older / NAMES[0])
    assert (older / NAMES[0]).read_text() == "by hand"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"a": 1}', '{"../a": [null, "1"]}', '{"a": ["../b", "1"]}', '{"a": ["b", "1"]}',
        '{"a": [null, 1]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_journal_from_a_stranger_touches_nothing(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    for path in (tmp_path / "a", folder / "a", folder / "b", tmp_path / "b"):
        path.write_text("mine")
    (folder / JOURNAL).write_text(text)
    settle(folder / "a")
    assert contents(folder) == {"a": "mine", "b": "mine"}
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "mine"


def test_the_journal_names_the_previous_files(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, list[str | None]]] = []
    rename = Path.replace

    def watching(self: Path, target: Path) -> Path:
        if target.name == NAMES[0] and self.read_text() == "new":
            seen.append(json.loads((older / JOURNAL).read_text()))
            settled = threading.Thread(target=settle, args=[older / NAMES[0]])
            settled.start()  # it waits until all files are renamed
            monkeypatch.setattr(Path, "replace", rename)
            done.append(settled)
        return rename(self, target)

    done: list[threading.Thread] = []
    monkeypatch.setattr(Path, "replace", watching)
    write_together(writers(older, "new"))
    done[0].join(10)
    assert sorted(seen[0]) == sorted(NAMES)
    assert contents(older) == of("new")


def test_threads_that_save_to_one_path_leave_the_set_of_one_of_them(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        texts = [str(number) * 1000 for number in range(40)]
        list(threads.map(lambda text: write_together(writers(tmp_path, text)), texts))
    found = contents(tmp_path)
    assert sorted(found) == sorted(NAMES)
    assert len({*found.values()}) == 1


def test_threads_that_save_one_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: write_whole(tmp_path / "a", str(number) * 5000), range(80)))
    text = (tmp_path / "a").read_text()
    assert contents(tmp_path) == {"a": text}
    assert len(text.replace(text[:2] if len(text) == 10_000 else text[0], "")) == 0


WRITING = """
import sys
from pathlib import Path
from qmlir.running.files import write_together
folder, text = Path(sys.argv[1]), sys.argv[2]
for _ in range(60):
    write_together({folder / name: lambda to: to.write_text(text) for name in sys.argv[3:]})
"""


def test_processes_that_save_to_one_path_leave_the_set_of_one_of_them(tmp_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", WRITING, str(tmp_path), text, *NAMES]) for text in "ab"]
    assert [process.wait(60) for process in started] == [0, 0]
    found = contents(tmp_path)
    assert sorted(found) == sorted(NAMES)
    assert len({*found.values()}) == 1


def test_modules_saved_from_threads_are_whole(tmp_path: Path) -> None:
    module = qmlir.load("examples/digits/digits.onnx")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: qmlir.save(module, tmp_path / "net.mlir"), range(8)))
    assert qmlir.load(tmp_path / "net.mlir").is_structurally_equivalent(module)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.mlir", "net.safetensors"]


def test_a_set_within_a_set_belongs_to_the_outer_one(tmp_path: Path) -> None:
    def fail() -> None:
        with together():
            write_together(writers(tmp_path, "new"))
            assert not (tmp_path / NAMES[0]).exists()
            assert staged_at(tmp_path / NAMES[0]).read_text() == "new"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert contents(tmp_path) == {}
    with together():
        write_whole(tmp_path / NAMES[0], "first")
        write_together(writers(tmp_path, "new"))
        with replacing(tmp_path / "apart", apart=True) as temporary:
            temporary.write_text("kept")
        assert (tmp_path / "apart").exists()
    assert contents(tmp_path) == {"apart": "kept", **of("new")}


def test_the_longest_name_of_a_file_system(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), "x")
    assert os.listdir(tmp_path) == ["n" * 255]


def fails_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes renaming to a name fail."""
    rename = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", failing)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("sets"))
    assert run("quantize", small.onnx, "--data", small.data, "--io", "int8", "-o", small / "q.mlir", "-q") == 0
    return small


SETS: dict[str, tuple[list[str], list[str]]] = {
    "module": (["import", "small.onnx", "-o", "out/a.mlir"], ["a.mlir", "a.safetensors"]),
    "object": (["compile", "q.mlir", "-o", "out/a.o"], ["a.o", "a.h", "a.weights.bin"]),
    "bundle": (["compile", "q.mlir", "--bundle", "--prefix", "a", "-o", "out"], ["manifest.json", "a.h", "a.o"]),
    "certificate": (["certify", "q.mlir", "-o", "out/a.json"], ["a.json", "a.integers.mlir"]),
    "ledger": (
        ["quantize", "small.onnx", "--data", "data.npz", "--ledger", "out/l.json", "-o", "out/a.mlir"],
        ["l.json", "a.mlir", "a.safetensors"],
    ),
    "program": (
        ["quantize", "small.onnx", "--data", "data.npz", "--target", "nmp", "-o", "out/a.npu"],
        ["a.npu", "a.host.mlir"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETS)
def test_files_that_commands_write_together_appear_all_or_none(
    kind: str, small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, names = SETS[kind]
    monkeypatch.chdir(small.folder)
    out = small / f"out-{kind}"
    out.mkdir()
    words = [word.replace("out", out.name) for word in words]
    for name in names:
        with monkeypatch.context() as patched:
            fails_at(name, patched)
            assert run(*words, "-q") == 1
        assert f"{name}: must be writable, got no space left on device" in capsys.readouterr().err
        assert list(out.iterdir()) == []
    assert run(*words, "-q") == 0
    assert {*names} <= {path.name for path in out.iterdir()}
