"""The simulator as a witness: it derives what commands touch by itself, and finds what the compiler has left out."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.npu.accesses import accesses_of
from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program
from qmlir.backends.simulated import assemble
from qmlir.compiler import Pipeline, to_integers
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.model.footprints import footprint, footprints
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.isa.blocks import Block, Fault, Footprint
from qmlir.isa.commands import COMMANDS, Pool
from qmlir.isa.encoding import Command
from qmlir.stages import TO_COMMANDS, to_layers
from tests.backends.npu.test_compiled import NETWORK, compiled, image

Change = Callable[[Block], Block]


def nothing(block: Block) -> Block:
    return replace(block, size=0)


def a_row_too_small(block: Block) -> Block:
    return replace(block, planes=block.planes - 1)


@cache
def placed(device: str) -> ModuleOp:
    """The network as commands on buffers that have addresses; no command waits yet."""
    module = parse_text(make_context(), NETWORK, "network")
    profile = qmlir.profile(module, [image(seed) for seed in range(4)])
    lowered = to_integers(qmlir.quantize(module, profile, target=device))
    *before, order = TO_COMMANDS
    assert order == "npu-order"
    Pipeline(*to_layers(device), *before).apply(lowered, make_context())
    return lowered


def ordered(module: ModuleOp) -> Program:
    """The program of commands whose buffers have addresses."""
    module = module.clone()
    Pipeline("npu-order").apply(module, make_context())
    return assemble(module)


def planted(monkeypatch: pytest.MonkeyPatch, kind: type[Command], side: str, place: int, change: Change) -> None:
    """Plants a wrong footprint in the compiler: one block of a command is another one."""

    def wrong(command: Command, *others: object) -> Footprint:
        right = footprint(command, *others)  # pyright: ignore[reportArgumentType]
        blocks = [change(b) if n == place else b for n, b in enumerate(getattr(right, side))]
        return replace(right, **{side: tuple(blocks)}) if type(command) is kind else right

    monkeypatch.setattr("qmlir.transforms.npu.order.footprint", wrong)


@pytest.mark.parametrize("device", shipped_devices())
def test_the_compiler_and_the_simulator_agree(device: str) -> None:
    """Derived twice, with no code in common, for each command that the compiler emits."""
    program = compiled(device).program
    routines = [routine.footprint for routine in program.routines]
    theirs = [touched for _, touched in footprints(program.commands, load_device(device), routines)]
    ours = [found.footprint for found in accesses_of(program.commands, load_device(device), routines)]
    assert theirs == ours


@pytest.mark.slow
@pytest.mark.parametrize("device", shipped_devices())
def test_a_block_left_out_is_found(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of each kind of command in turn: where a wait is missing then, the simulator refuses the program."""
    described = load_device(device)
    module = placed(device)
    right = ordered(module)
    checked(right, described)
    missing: list[str] = []
    for kind, side, place in product(COMMANDS, ("reads", "writes"), range(3)):
        planted(monkeypatch, kind, side, place, nothing)
        program = ordered(module)
        if program.commands != right.commands:
            missing.append(f"{side} of {kind.__name__}")
            with pytest.raises(Fault, match="must wait for"):
                checked(program, described)
    assert len(missing) > 1


PORT = '#npu.port<"{}", 0 : i64, "{}", [256 : i64], "i8">'
WHOLE = "planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0"
ROWS = f"""
builtin.module attributes {{npu.device = "nmp", npu.layers = []}} {{
  func.func @main() {{
    %x = npu.buffer "dram" 256 {{role = "ifm", address = 0 : i64, port = {PORT.format("input", "x")}}} : !npu.buffer
    %y = npu.buffer "dram" 256 {{role = "ofm", address = 256 : i64, port = {PORT.format("output", "y")}}} : !npu.buffer
    %a = npu.buffer "act" 256 {{role = "ifm", address = 0 : i64}} : !npu.buffer
    %b = npu.buffer "act" 256 {{role = "ofm", address = 256 : i64}} : !npu.buffer
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 192 rows = 1 {WHOLE}
    npu.issue "load" "move" source = %x[192] target = %a[192] size = 64 rows = 1 {WHOLE}
    npu.issue "post" "pool" pooling = max bits = 8 source = %a[0] rows = 4 columns = 1 channels = 64 row_pitch = 64 \
pixel_pitch = 64 target = %b[0] out_rows = 4 out_columns = 1 target_row = 64 target_pixel = 64 kernel_rows = 1 \
kernel_columns = 1 stride_rows = 1 stride_columns = 1 dilation_rows = 1 dilation_columns = 1 top = 0 left = 0 \
count_padding = 0 zero_point = 0
    npu.issue "store" "move" source = %b[192] target = %y[192] size = 64 rows = 1 {WHOLE}
    npu.issue "store" "move" source = %b[0] target = %y[0] size = 192 rows = 1 {WHOLE}
    npu.issue "exec" "end" status = 0
    func.return
  }}
}}
"""
"""An image of four rows, brought in and taken out by a command for its last row and one for the others."""


@pytest.mark.parametrize(("side", "late"), [("reads", "number 2 of queue load"), ("writes", "number 1 of queue post")])
def test_a_row_too_small_is_found(side: str, late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device, x = parse_text(make_context(), ROWS, "rows"), load_device("nmp"), np.arange(256).astype(np.int8)
    assert np.array_equal(Simulator(ordered(module), device).run(x)[0], x)
    planted(monkeypatch, Pool, side, 0, a_row_too_small)
    with pytest.raises(Fault, match=f"must wait for command ., {late}, which touches the same bytes"):
        Simulator(ordered(module), device)
