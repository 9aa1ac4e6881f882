"""Waits on devices that can wait for less: the simulator, which checks every overlap, finds no race."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.stream import Program
from qmlir.backends.simulated import assemble
from qmlir.compiler import Pipeline
from qmlir.devices import load_device
from qmlir.ir.context import make_context
from qmlir.ir.source import read_mlir
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import Sync
from tests.backends.npu.test_interleave import found as wrong_in_some_order
from tests.conftest import ROOT

TILES = 6
WHOLE = "rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0"


def device_file(folder: Path, sync: str) -> Path:
    """The device `nmp` with other ways to wait."""
    text = (ROOT / "qmlir" / "targets" / "nmp.toml").read_text(encoding="utf-8")
    written = folder / "mine.toml"
    written.write_text(text.replace('kind = "watermark"\nmax_waits = 3', sync), encoding="utf-8")
    return written


def module(folder: Path, device: str) -> ModuleOp:
    """Adds two inputs tile by tile: both brought in, added, and taken away, each tile in buffers of its own."""
    add = (
        "operation = add bits = 8 lhs = %a{n}[0] rhs = %b{n}[0] target = %c{n}[0] rows = 1 columns = 1 channels = 64 "
        "lhs_row = 64 lhs_pixel = 64 rhs_row = 64 rhs_pixel = 64 target_row = 64 target_pixel = 64 lhs_zero_point = 0 "
        "rhs_zero_point = 0 lhs_multiplier = 1 rhs_multiplier = 1 shift = 1"
    )
    ports = {name: (way, n) for way, names in (("input", "xz"), ("output", "y")) for n, name in enumerate(names)}
    lines = [
        *(
            f'%{name} = npu.buffer "dram" 384 {{role = "ifm", tensor = "{name}", '
            f'port = #npu.port<"{way}", {n} : i64, "{name}", [384 : i64], "i8">}} : !npu.buffer'
            for name, (way, n) in ports.items()
        ),
        '%t = npu.buffer "acc" 64 {role = "acc"} : !npu.buffer',
        'npu.issue "exec" "mark" layer = 0',
        'npu.issue "post" "set-context" ctx = 1 step = requantize bits = 8 contract = 4 input_zero_point = 0 '
        "zero_point = 0 lower = -128 upper = 127 per_channel = 0 table = %t[0]",
    ]
    for n in range(TILES):
        at = 64 * n
        lines += [
            *(
                f'%{v}{n} = npu.buffer "act" 40000 {{role = "{r}"}} : !npu.buffer'
                for v, r in zip("abc", ("ifm", "ifm", "ofm"))
            ),
            f'npu.issue "load" "move" source = %x[{at}] target = %a{n}[0] size = 64 {WHOLE}',
            f'npu.issue "load" "move" source = %z[{at}] target = %b{n}[0] size = 64 {WHOLE}',
            f'npu.issue "post" "arithmetic" ctx = 1 {add.format(n=n)}',
            f'npu.issue "store" "move" source = %c{n}[0] target = %y[{at}] size = 64 {WHOLE}',
        ]
    body = "\n".join([*lines, 'npu.issue "exec" "end" status = 0', "func.return"])
    attributes = f'npu.device = "{device}", npu.layers = ["sum"]'
    file = folder / "program.mlir"
    file.write_text(f"builtin.module attributes {{{attributes}}} {{\nfunc.func @main() {{\n{body}\n}}\n}}\n")
    return read_mlir(file)


def compiled(folder: Path, sync: str) -> Program:
    device = str(device_file(folder, sync))
    placed = Pipeline("npu-place", "npu-order")(module(folder, device), make_context())
    return assemble(placed)


# With barriers, one before each sum and each store, and one for every two tiles that are brought where others were.
@pytest.mark.parametrize(
    ("sync", "syncs"),
    [
        ('kind = "watermark"\nmax_waits = 3', 0),
        ('kind = "watermark"\nmax_waits = 1', 4),
        ('kind = "interlock"', 0),
        ('kind = "interlock"\ncompares = ["act", "acc"]', 0),
        ('kind = "interlock"\ncompares = ["dram"]\nmax_waits = 1', 4),
        ('kind = "barrier"', 2 * TILES + TILES // 2 - 1),
    ],
)
def test_tiles_overlap_without_a_race(tmp_path: Path, sync: str, syncs: int) -> None:
    program = compiled(tmp_path, sync)
    device = load_device(tmp_path / "mine.toml")
    assert sum(isinstance(command, Sync) for command in program.commands) == syncs
    assert all(len(command.waits) <= device.sync.max_waits for command in program.commands)
    if device.sync.kind == "interlock":
        assert any(command.waits for command in program.commands) == (device.sync.compares == ("dram",))
    assert wrong_in_some_order(program, device) == ""
    rng = np.random.default_rng(0)
    x, z = rng.integers(-128, 128, (2, 384)).astype(np.int8)
    simulator = Simulator(program, device)
    (y,) = simulator.run(x, z)
    assert (y == (x.astype(np.int64) + z + 1 >> 1)).all()


def test_every_wait_is_needed(tmp_path: Path) -> None:
    """Whichever is left out, two commands race."""
    program = compiled(tmp_path, 'kind = "watermark"\nmax_waits = 3')
    device = load_device(tmp_path / "mine.toml")
    x = np.zeros(384, np.int8)
    waits = [(n, wait) for n, command in enumerate(program.commands) for wait in command.waits]
    assert len(waits) > 2 * TILES
    for n, wait in waits:
        fewer = replace(program.commands[n], waits=tuple(w for w in program.commands[n].waits if w != wait))
        broken = replace(program, commands=[*program.commands[:n], fewer, *program.commands[n + 1 :]])
        with pytest.raises(Fault, match="must wait for command"):
            Simulator(broken, device).run(x, x)


def test_a_program_survives_the_file(tmp_path: Path) -> None:
    program = compiled(tmp_path, 'kind = "watermark"\nmax_waits = 3')
    assert Program.from_bytes(program.to_bytes()) == program
    assert list(program.layers) == ["sum"]
    assert [port.name for port in program.inputs] == ["x", "z"]
