"""What commands print: names that fit the width, what went well in a line, details on request, nothing if quiet."""

import os
import pty
import re
import subprocess
import sys
from io import StringIO

import onnx
import pytest
from rich.console import Console

from qmlir.analysis.counts import Decided
from qmlir.cli import device
from qmlir.cli.ledger import REMARKS, print_decisions
from qmlir.cli.main import command_parsers
from qmlir.cli.opt import main as opt
from qmlir.cli.terminal import LEAST_NAME, Detail, broken, printing, shortened, shortened_apart, table_of
from qmlir.policies.ledger import Entry
from tests.cli.small import Small, run, write_small
from tests.conftest import crossed

LONG = "model/activation_{0}/Relu;model/batch_normalization_{0}/FusedBatchNormV3;model/conv2d_{0}/Conv2D1"


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("conv1", 10, "conv1"),
        ("abcdefghijkl", 10, "abcde…ijkl"),
        ("conv1+norm1+relu1", 12, "conv1+…"),
        (LONG.format(7), 25, "model/activation_7/Relu;…"),
        (LONG.format(7), 20, "model/act…n_7/Relu;…"),
        ("conv1+norm1", 8, "conv…rm1"),
        ("+abcdefghijklmnopqrst", 12, "+abcde…pqrst"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_names_are_shortened(name: str, width: int, expected: str) -> None:
    assert shortened(name, width) == expected


MOBILENET = [
    f"MobilenetV1/MobilenetV1/Conv2d_{n}_{kind}/Relu6" for n in range(1, 14) for kind in ("depthwise", "pointwise")
]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "MobilenetV1/MobilenetV1/Conv2d_10_depthwise/Relu6"),
        (41, "MobilenetV1/Mobilene…d_10_depthwise/Relu6"),
        (28, "…/Conv2d_10_depthwise/Relu6"),
        (22, "…Conv2d_10_depthwise/…"),
        (17, "…Conv2d_10_depth…"),
    ],
)
def test_names_in_the_same_folder_stay_apart(width: int, shown: str) -> None:
    """Layers of a network differ in the middle of their names, which goes only if the names differ elsewhere."""
    found = shortened_apart((*MOBILENET, "input"), width)
    assert found[MOBILENET[18]] == shown
    assert found["input"] == "input"
    assert len({*found.values()}) == len(MOBILENET) + 1
    assert max(map(len, found.values())) <= width


def test_joined_names_keep_apart_and_say_that_they_are_joined() -> None:
    names = tuple(f"{name};other" for name in MOBILENET)
    found = shortened_apart(names, 20)
    assert len({*found.values()}) == len(names)
    assert all(len(shown) <= 20 and shown.endswith(";…") for shown in found.values())


def test_names_of_one_network_stay_apart() -> None:
    shown = {shortened(LONG.format(number), LEAST_NAME) for number in range(30)}
    assert len(shown) == 30


@pytest.mark.parametrize("width", [80, 120])
def test_names_are_not_folded(width: int) -> None:
    out = StringIO()
    rows = [(LONG.format(n), "nn.depthwise_conv2d", "quantized", "i8 activations, i8 weights " * 3) for n in range(3)]
    table = table_of(("node", "operation", "outcome", "why"), rows, names=("node",), whole=("operation", "outcome"))
    Console(file=out, width=width).print(table)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert [line.split()[:3] for line in lines if "nn." in line] == [
        [line.split()[0], "nn.depthwise_conv2d", "quantized"] for line in lines if "Relu;…" in line
    ]
    assert sum("Relu;…" in line for line in lines) == 3


def test_remarks_are_shown_if_they_are_few() -> None:
    entry = Entry("a", "nn.conv2d", "quantized", "integer", "i8 activations; weight scales widened")
    left = Entry("b", "nn.softmax", "float", "policy", "the policy keeps it in floats")
    for count, lines in ((REMARKS, 2 + 1 + REMARKS), (REMARKS + 1, 2 + 1 + 1)):
        out = StringIO()
        print_decisions([*[Decided(entry)] * count, Decided(left)], Console(file=out, width=100))
        printed = out.getvalue().splitlines()
        assert len(printed) == lines
        assert printed[2].split()[:2] == ["b", "nn.softmax"]
        assert ("weight scales widened" in out.getvalue()) == (count == REMARKS)
    assert printed[-1] == f"{REMARKS + 1} quantized operations have remarks, which --verbose shows"


# Whole commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A network with long names, quantized."""
    small = write_small(tmp_path_factory.mktemp("terminal"))
    model = onnx.load(small.onnx)
    for number, node in enumerate(model.graph.node):
        node.name = LONG.format(number)
    onnx.save(model, small.onnx)
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir", "-q") == 0
    return small


COMMANDS = {
    "import": "import {d}/small.onnx -o {d}/i.mlir",
    "profile": "profile {d}/small.onnx --data {d}/data.npz -o {d}/p.yaml",
    "quantize": "quantize {d}/small.onnx --data {d}/data.npz -o {d}/q2.mlir",
    "ledger": "ledger {d}/q.mlir",
    "ledger diff": "ledger diff {d}/q.mlir {d}/q.mlir",
    "analyze": "analyze {d}/small.onnx {d}/q.mlir --data {d}/data.npz",
    "tune": "tune {d}/small.onnx --data {d}/data.npz --floor sqnr=int8-20 --most 2 -o {d}/t.yaml",
    "explore": "explore nmp {d}/small.onnx --data {d}/data.npz --sweep array.lanes.n=8,0",
    "compile": "compile {d}/q.mlir -o {d}/q.o",
    "bench": "bench {d}/q.mlir --runs 2",
    "run": "run {d}/q.mlir --data {d}/data.npz",
    "device check": "device check ethos-u55-like {d}/q.mlir",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_quiet_prints_nothing(folder: Small, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-q", *COMMANDS[name].format(d=folder.folder).split()) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("name", ["quantize", "ledger", "bench"])
def test_tables_fit_80_columns(
    folder: Small, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*COMMANDS[name].format(d=folder.folder).split(), "--verbose") == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if "Relu" in line and ": written" not in line]
    assert table
    assert max(map(len, table)) <= 80
    assert all(line.split()[0].endswith(";…") for line in table)


def test_refusals_of_many_operations_are_counted(
    folder: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device, "LISTED", 0)
    command = ("device", "check", "vta", folder / "q.mlir")
    run(*command)
    counted = capsys.readouterr().out
    run(*command, "--verbose")
    listed = capsys.readouterr().out
    assert re.search(r"^zero points are 0, got .*\(quant.zero_point.activations\) +\d+ +model/", counted, re.MULTILINE)
    assert "--verbose lists them" in counted
    assert "--verbose" not in listed
    assert listed.count("qint.requantize") > 1 > counted.count("qint.requantize")


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_break_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    line = "  on the host: 12 operations, such as qint.requantize"
    assert broken(line, StringIO()) == line
    assert broken(line, Terminal()).splitlines() == ["  on the host: 12 operations,", "    such as qint.requantize"]
    assert broken("short", Terminal()) == "short"
    assert broken("a-path/that-is-longer-than-the-line/net.mlir: written", Terminal()).splitlines() == [
        "a-path/that-is-longer-than-the-line/net.mlir:", "  written",
    ]  # fmt: skip


@crossed({"name": ["", *command_parsers()], "columns": [80, 120]})
def test_help_fits_the_terminal(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        run(*name.split(), "--help")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    usage = " ".join(lines).partition("  ")[0]
    assert len(usage) < 4 * 80
    assert not [line for line in lines if re.search(r"[a-z]-$", line)], "a word is cut at its hyphen"


def test_help_names_all_values_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(command_parsers()["quantize"].format_help().split())
    assert (
        "--schema SCHEMA one of asymmetric, symmetric, symmetric_with_uint8, symmetric_with_power2_scale: how" in text
    )
    assert "--precision {int8,uint8,int16,float16,bfloat16,auto} storage" in text


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("options", [["--help"], ["--list-passes"], ["--npu-tile", "--help"]])
def test_help_of_passes_fits_the_terminal(
    options: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert opt(options) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_reasons_of_the_host_are_told_once(folder: Small, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [
        Entry(name, "qint.requantize", "host", "host", f"its transfers would cost {cost} cycles")
        for name, cost in (("a", 5), ("b", 70), ("c", -3))
    ] + [Entry("d", "nn.softmax", "host", "host", "the device has none")]
    device._say_host(entries)
    assert capsys.readouterr().out.splitlines() == [
        'on the host: 3 operations, such as qint.requantize "a": its transfers would cost 5 cycles',
        'on the host: nn.softmax "d": the device has none',
    ]
    with printing(Detail(verbose=True)):
        device._say_host(entries)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_short_calls_are_told_in_microseconds(folder: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", folder / "q.mlir", "--runs", 2) == 0
    printed = capsys.readouterr().out
    heading, first = printed.splitlines()[:2]
    assert heading.split()[:4] == ["layer", "µs", "share", "MMAC"]
    assert float(first.split()[1]) > 0
    assert " µs at least, " in printed


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 160])
def test_causes_have_columns_only_where_they_fit(
    folder: Small, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    data = ("--data", folder.data, "--budget")
    assert run("analyze", folder.onnx, folder / "q.mlir", *data) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert ("data rounded" in heading, "result rounded" in heading) == (columns == 160, columns == 160)
    assert sum("nn." in row for row in rows) == len(rows) - 1, "each operation has one line"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals on Windows")
def test_on_a_terminal(folder: Small) -> None:
    """In a real terminal of 80 columns: a table, and no line beyond them."""
    main, second = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm", "LINES": "40"}
    size = "import fcntl, struct, sys, termios; fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 80, 0, 0))"
    code = f"{size}; from qmlir.cli.main import main; sys.exit(main(['ledger', {str(folder / 'q.mlir')!r}]))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=second, stderr=second, env=environment)
    os.close(second)
    printed = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        printed += part
    os.close(main)
    assert process.wait() == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", printed.decode()).splitlines()
    assert max(map(len, lines)) <= 80
    assert "node" in lines[0]
