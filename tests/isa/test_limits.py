"""The limits of commands: the encoder, the simulator, legality and the compiler's tiles all keep to the same table."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.backends.npu.accesses import accesses
from qmlir.compiler import Pipeline
from qmlir.devices import Device, load_device, shipped_devices
from qmlir.devices.description.device import Memory
from qmlir.devices.legality.least import least_commands
from qmlir.devices.legality.limits import OPERATIONS, computes
from qmlir.devices.legality.requirements import target_of_device
from qmlir.dialects.qint import normalization, root_normalization
from qmlir.errors import PipelineError
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.source import parse_text
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import (
    COMMANDS,
    Arithmetic,
    Arrange,
    Convolve,
    Division,
    Fill,
    Init,
    Norm,
    Normalize,
    OfRows,
    Operation,
    Pool,
    SetContext,
    Softmax,
    Unpack,
    Window,
)
from qmlir.isa.encoding import ADDRESS_BITS, WORD, Command, Place, Signed, StreamError, Wait, field_kinds
from qmlir.isa.limits import DROPPED, LIMITS, MOST_BEHIND, MOST_TAPS, ROOT_BITS, UNIT_BITS, broken, term_of
from qmlir.lowering.qint_to_npu.partition import on_the_host
from qmlir.numerics import root_quotients
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.stages import TO_INTEGERS
from tests.fuzz.devices import options_for
from tests.graphs import network as random_network
from tests.ops.samples import SAMPLES


def command(kind: type[Command], **given: Any) -> Command:
    """A command whose fields are 1, except the given ones."""
    names: dict[str, Any] = {name: Place(0, 0) if field is Place else 1 for name, field in field_kinds(kind).items()}
    widths: dict[str, Any] = {
        "bits": 8,
        "data_bits": 8,
        "operation": Operation.ADD,
        "weight_bits": 8,
        "sum_bits": 32,
        "bias_bits": 32,
        "source_bits": 8 if issubclass(kind, OfRows) else 32,
        "target_bits": 8,
        "division": Division.EXACT,
        "unit": 1 << 12,
        "norm": Norm.LAYER,
        "multiplier": 1 << 30,
        "epsilon_high": 0,
    }
    known: dict[str, Any] = {
        name: value for name, value in (widths | {"init": Init.ZERO} | given).items() if name in names
    }
    return kind(0, (), 0, **(names | known))


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_encoder_refuses_what_does_not_fit(kind: type[Command]) -> None:
    whole = command(kind)
    assert kind.of(0, (), 0, whole.words()[1:]) == whole
    for name, field in field_kinds(kind).items():
        if field is Place:
            wrong: tuple[Any, ...] = (Place(16, 0), Place(0, 1 << ADDRESS_BITS), Place(-1, 0), Place(0, -1))
        else:
            wrong = (WORD >> 1, -(WORD >> 1) - 1) if field is Signed else (WORD, -1)
        for value in wrong:
            with pytest.raises(StreamError, match=f"must fit its bits, got {name} "):
                replace(whole, **{name: value}).words()
    for header in ({"queue": 16}, {"ctx": 16}, {"waits": (Wait(0, 1),) * 4}, {"waits": (Wait(0, 1 << 28),)}):
        with pytest.raises(StreamError, match="must fit its bits"):
            replace(whole, **header).words()


def test_the_simulator_refuses_what_breaks_a_limit() -> None:
    """Each limit has a command that keeps to all limits and one that breaks this one alone."""
    device = load_device("ethos-u55-like")
    window: dict[str, Any] = {"out_rows": 1 << 10, "out_columns": 1 << 10}
    zero: dict[str, Any] = {"shift": 62, "lhs_multiplier": -(1 << 31), "lhs_zero_point": -(1 << 31)}
    wrong: dict[str, list[tuple[type[Command], dict[str, Any]]]] = {
        "every number": [(kind, {next(iter(field_kinds(kind))): 1 << 40}) for kind in COMMANDS[1:5]],
        "integers": [(Pool, {"bits": 32}), (SetContext, {"bits": 12}), (Arithmetic, {"bits": 64})],
        "bounds": [(SetContext, {"upper": 128}), (SetContext, {"lower": 3}), (Softmax, {"upper": 128})],
        "on rows": [(Softmax, {"rows": 0}), (Normalize, {"channels": (1 << 24) + 1})],
        "exponentials": [(Softmax, {"entries": 0}), (Softmax, {"entries": (1 << 16) + 1})],
        "division takes": [
            (Softmax, {"unit": 4095}),
            (Softmax, {"unit": (1 << 31) + 1}),
            (Softmax, {"division": Division.NEWTON, "unit": 3 << 12}),
            (Softmax, {"division": Division.NEWTON, "unit": 1 << 29}),
            (Softmax, {"division": Division.INTERPOLATED, "unit": 1 << 26}),
        ],
        "must have 31 bits": [
            (Normalize, {"multiplier": (1 << 30) - 1}),
            (Normalize, {"shift": -63}),
            (Normalize, {"fraction": 63}),
            (Normalize, {"epsilon_high": 1 << 30}),
        ],
        "roots": [
            (Normalize, {"fraction": 48}),
            (Normalize, {"channels": 1 << 24}),
            (Normalize, {"norm": Norm.RMS, "input_zero_point": -(1 << 31), "fraction": 0}),
        ],
        "quotients": [(Normalize, {"shift": 58}), (Normalize, {"norm": Norm.RMS, "shift": 27, "fraction": -20})],
        "byte": [(Fill, {"value": 256})],
        "unpack": [(Unpack, {"count": 0}), (Unpack, {"count": (1 << 24) + 1})],
        "weights must": [(Convolve, {"weight_bits": 9})],
        "once or not at all": [(Arrange, {"transposed": 2})],
        "1 to": [
            (Arrange, {"rows": 0}),
            (Arrange, {"rows": 1 << 12, "columns": (1 << 12) + 1}),
            (Pool, {"kernel_rows": 64, "kernel_columns": 65}),
            (Convolve, {"kernel_rows": 0}),
        ],
        "at least 1": [(Pool, {"stride_rows": 0}), (Convolve, {"dilation_columns": 0})],
        "output channels": [(Convolve, {"out_channels": 0})],
        "places": [(Pool, {"out_rows": 0})],
        "meet": [(Pool, {"out_rows": 1 << 25}), (Pool, {"out_rows": 1 << 17, "kernel_rows": 1 << 12})],
        "zero point": [(Convolve, {"zero_point": 128})],
        "channels": [(Convolve, {"channels": (1 << 20) + 1})],
        "products": [(Convolve, window | {"out_channels": 1 << 13})],
        "62 bits": [(Arithmetic, {"shift": 0}), (Arithmetic, {"shift": 63})],
        "64 bits": [(Arithmetic, zero)],
    }
    for words, cases in wrong.items():
        for kind, given in cases:
            assert broken(command(kind)) is None
            found = broken(command(kind, **given))
            assert found is not None
            assert words in found[0]
            with pytest.raises(Fault, match=words):
                accesses(command(kind, **given), device, {})
    assert all(any(words in limit.need for words in wrong) for limit in LIMITS)


def test_the_numbers_of_rows_are_those_of_the_integer_level() -> None:
    """The instruction set states the numbers of qint's equations, which it does not see, once more."""
    assert (UNIT_BITS, DROPPED) == (normalization.FRACTION, normalization.SUM_BITS)
    assert (ROOT_BITS, MOST_BEHIND) == (root_quotients.SUM_BITS, root_normalization.MOST_BEHIND)
    for e in (0, 2047, 2048, 1 << 30):
        assert term_of(e, Division.NEWTON) == normalization.newton_term(Lanes(np.array(e))).array


# ---------------------------------------------------------------------------------------------------------------
# What legality lets through, the compiler makes commands for


def lifted(name: str, share: int | None = None) -> Device:
    """A device that comes with qmlir, without the limits on windows that its file sets.

    Args:
        name: The device.
        share: The part of the memories inside that is left, if whole parts remain; by default they are larger.
    """
    device = load_device(name)
    keys = ("kernel_max", "kernel_area_max", "stride_max", "dilation_max", "padding_max")
    given = [
        (f"ops.{kind}.{key}", [1 << 20, 1 << 20] if key == "kernel_max" else 1 << 20)
        for kind in ("conv2d", "depthwise", "maxpool", "avgpool")
        for key in keys
        if getattr(getattr(device.ops, kind), key, None) is not None
    ]
    inside = [memory for memory in device.memory if not memory.external]
    memories = [(f"memory.{m.id}.bytes", 4 * m.bytes if share is None else _left(m, share)) for m in inside]
    return device.with_(dict([*given, *memories]))


def _left(memory: Memory, share: int) -> int:
    """The bytes of a part of a memory: whole banks, or whole pieces of its alignment, one for each role at least."""
    unit = memory.align * memory.banks
    return max(memory.bytes // share // unit * unit, memory.align * max(memory.banks, len(memory.holds)))


def windowed(kind: str, window: tuple[int, int], image_of: tuple[int, int, int], contract: str = "single") -> ModuleOp:
    """An operation with a window, and a maximum of single elements behind it that any device computes."""
    (rows, columns), (height, width, channels) = window, image_of
    h, w = height - rows + 1, width - columns + 1
    image, result = f"tensor<1x{height}x{width}x{channels}xi8>", f"tensor<1x{h}x{w}x{channels}xi8>"
    if kind in ("max", "average"):
        lines = [f"%y = qint.{kind}_pool2d %x {{window = array<i64: {rows}, {columns}>}} : {image} -> {result}"]
    else:
        shape = f"tensor<1x{rows}x{columns}x1xi8>"
        numbers = ", ".join(str(n % 5 - 2) for n in range(rows * columns))
        requantize = (
            f'qint.requantize %s {{multiplier = array<i32: 1073741824>, shift = array<i32: -6>, contract = "{contract}"'
            f", min = -128 : i32, max = 127 : i32}} : {result.replace('i8', 'i32')} -> {result}"
        )
        lines = [
            f"%w = nn.constant <{shape}, [{numbers}]> : {shape}",
            f"%s = qint.{kind} %x, %w : {image}, {shape} -> {result.replace('i8', 'i32')}",
            f"%y = {requantize}",
        ]
    after = f"%z = qint.max_pool2d %y {{window = array<i64: 1, 1>}} : {result} -> {result}"
    body = "\n".join([*lines, after, f"func.return %z : {result}"])
    return parse_text(make_context(), f"func.func @main(%x: {image}) -> {result} {{\n{body}\n}}", "network")


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize("kind", ["max", "average", "conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (64, 65), (5000, 1)])
def test_a_window_with_as_many_elements_as_commands_have(kind: str, rows: int, columns: int, name: str) -> None:
    device = lifted(name)
    module = windowed(kind, (rows, columns), (rows + 1, columns, 1), device.quant.contract)
    refused = [v for v in judge(module, device) if v.refusals]
    if rows * columns > MOST_TAPS and (refused or kind != "max"):  # maxima of maxima may pay
        first = refused[0].refusals[0]
        assert "a window must have 1 to 4096 elements" in first or "divides" in first or "has no" in first
    elif not (name == "vta" and kind in ("average", "depthwise_conv2d")):
        assert not refused
    executable = qmlir.compile(module, target=device)
    x = np.random.default_rng(0).integers(-128, 128, (1, rows + 1, columns, 1)).astype(np.int8)
    assert (executable(x) == qmlir.reference(module)(x)).all()


SIZES: Sequence[tuple[str, str, tuple[int, int], int]] = [
    ("gemmini", "conv2d", (64, 64), 1),
    ("gemmini", "depthwise_conv2d", (64, 64), 16),
    ("nmp", "conv2d", (40, 40), 16),
    ("nvdla-small", "conv2d", (400, 1), 16),
    ("nvdla-small", "depthwise_conv2d", (64, 64), 16),
    ("vta", "max", (40, 40), 1 << 12),
    ("vta", "average", (64, 64), 16),
]


@pytest.mark.parametrize(("name", "kind", "window", "share"), SIZES)
def test_the_smallest_tile_fits_or_the_host_computes(name: str, kind: str, window: tuple[int, int], share: int) -> None:
    """The device check and the compiler agree about an operation of which not even the smallest tile fits."""
    device = lifted(name, share)
    (rows, columns) = window
    module = windowed(kind, window, (rows + 1, columns, 1), device.quant.contract)
    refused = {each.operation: each.refusals for each in judge(module, device) if each.refusals}
    first = next(iter(refused.values()))[0]
    assert "the smallest tile must fit the memories, got" in first
    executable = qmlir.compile(module, target=device)
    assert executable.program.routines
    x = np.random.default_rng(0).integers(-128, 128, (1, rows + 1, columns, 1)).astype(np.int8)
    assert (executable(x) == qmlir.reference(module)(x)).all()


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize("seed", [1, 14])
def test_networks_on_devices_whose_memories_hardly_hold_a_tile(seed: int, name: str) -> None:
    """Whatever legality leaves to the device has tiles, in memories of a few bytes, too."""
    rng = np.random.default_rng(seed)
    drawn, options = random_network(rng), options_for(rng, name)
    quantized = qmlir.quantize(drawn.observed(options.simplified), **options.quantizer)
    for share in (64, 1 << 20):
        device = lifted(name, share)
        integers = Pipeline(*TO_INTEGERS)(quantized, context_of(device))
        left = on_the_host(integers, device)
        if any(computes(op) and op not in left for op in integers.walk()):
            assert qmlir.compile(quantized, target=device).program.commands


@pytest.mark.parametrize(("name", "memory"), [("ethos-u55-like", "sram"), ("nmp", "act")])
def test_a_large_pool_is_cut_into_commands(name: str, memory: str) -> None:
    """64 x 64 elements under each of 67 x 67 windows in 16 channels are more than a command meets."""
    device = lifted(name).with_({f"memory.{memory}.bytes": 1 << 28})
    module = windowed("max", (64, 64), (130, 130, 16))
    assert not any(v.refusals for v in judge(module, device))
    program = qmlir.compile(module, target=device).program
    assert sum(isinstance(c, Pool) and c.kernel_rows == 64 for c in program.commands) > 1
    assert all(broken(c) is None for c in program.commands)
    program.to_bytes()


def test_every_kind_of_operation_has_commands() -> None:
    device = load_device("nmp")
    built = [sample.build() for sample in SAMPLES if sample.op in OPERATIONS]
    assert {type(op) for op in built} == set(OPERATIONS)
    assert all([*least_commands(op, device)] for op in built)


def fixed(command: Command, names: set[str]) -> tuple[object, ...]:
    return (type(command), *((f.name, getattr(command, f.name)) for f in fields(command) if f.name in names))


OF_OPERATIONS = {
    "data_bits", "sum_bits", "bias_bits", "zero_point", "weight_zero_point", "kernel_rows", "kernel_columns",
    "stride_rows", "stride_columns", "dilation_rows", "dilation_columns", "bits", "pooling", "count_padding",
    "lhs_zero_point", "rhs_zero_point", "lhs_multiplier", "rhs_multiplier", "shift", "step", "contract", "lower",
    "upper", "input_zero_point", "target_bits", "division", "entries", "unit", "norm", "multiplier",
    "fraction", "epsilon_low", "epsilon_high",
}  # fmt: skip
"""Fields that no tile changes."""


def judged(seed: int, name: str) -> Iterator[tuple[Any, Any]]:
    """The program of a random network on a device, and the operations that the device computes."""
    rng = np.random.default_rng(seed)
    drawn = random_network(rng)
    options = options_for(rng, name)
    try:
        quantized = qmlir.quantize(drawn.observed(options.simplified), **options.quantizer)
        executable = qmlir.compile(quantized, target=name)
    except PipelineError:
        return
    yield executable.program, Pipeline(*TO_INTEGERS)(quantized, context_of(load_device(name)))


def context_of(device: Device) -> QmlirContext:
    """A context whose target is a device."""
    context = make_context()
    context.target = target_of_device(device)
    return context


@pytest.mark.parametrize("name", ["ethos-u55-like", "nmp"])
@pytest.mark.parametrize("seed", range(6))
def test_tiles_keep_the_numbers_of_the_least_commands(seed: int, name: str) -> None:
    device = load_device(name)
    for program, module in judged(seed, name):
        on_the_host(module, device)  # greatest elements become pools
        least = [c for op in module.walk() if type(op) in OPERATIONS for c in least_commands(op, device)]
        known = {fixed(c, OF_OPERATIONS) for c in least}
        for emitted in program.commands:
            copies = isinstance(emitted, Pool) and emitted.kernel_rows == emitted.kernel_columns == 1
            if isinstance(emitted, Window | Arithmetic | Pool | OfRows) and not copies:
                assert fixed(emitted, OF_OPERATIONS) in known
