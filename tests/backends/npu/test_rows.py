"""Operations on rows on devices: the reference's bits in Python and in C, costs, and what stays on the host."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

import qmlir
from qmlir.analysis.placement import judge
from qmlir.backends.npu.accesses import accesses, require_access, require_apart
from qmlir.backends.npu.c_model.library import compiler
from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.devices import Device, load_device, text_of
from qmlir.devices.model.footprints import footprint
from qmlir.dialects import qint
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import Normalize, OfRows, Softmax
from qmlir.isa.encoding import Place
from qmlir.stages import TO_COMMANDS, to_layers
from tests.backends.npu.test_witness import nothing, ordered, planted
from tests.ops.sample import Sample
from tests.ops.samples import QINT_SAMPLES

WIDE = load_device("nmp").with_(
    {"memory.acc.bytes": 1 << 24, "ops.layer_norm.row_max": 8192, "quant.zero_point.activations": True}
)
"""A device with zero points, and room for tables of 16 bits."""

DEVICES = {"ethos-u55-like": load_device("ethos-u55-like"), "wide": WIDE}
ROWS = (qint.SoftmaxOp, qint.LayerNormOp, qint.RMSNormOp)
SAMPLES = [sample for sample in QINT_SAMPLES if sample.op in ROWS]


def network(sample: Sample) -> ModuleOp:
    """A network of the sample's operation."""
    op = sample.build()
    block = Block(arg_types=[op.operands[0].type])
    made = op.clone({op.operands[0]: block.args[0]})
    block.add_ops([made, func.ReturnOp(made.results[0])])
    types = ([block.args[0].type], [made.results[0].type])
    return ModuleOp([func.FuncOp("main", types, Region(block))])


def is_computed(module: ModuleOp, device: Device) -> bool:
    return not any(verdict.refusals for verdict in judge(module, device))


def rows_of(program: Program) -> Sequence[OfRows]:
    return [command for command in program.commands if isinstance(command, OfRows)]


def simulated_by(by: str) -> object:
    """A simulator as a parameter: the model in C has to be compiled first."""
    without = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")
    return by if by == "python" else pytest.param(by, marks=[pytest.mark.slow, without])


@pytest.mark.parametrize("by", [simulated_by(by) for by in ("python", "c")])
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_form_has_the_bits_of_the_reference(sample: Sample, name: str, by: str) -> None:
    """On random rows of each form of parameters, at the cost that was predicted."""
    module, device = network(sample), DEVICES[name]
    if not is_computed(module, device):
        assert "columns" in sample.note, "another form that no device computes"
        return
    executable = qmlir.compile(module, target=device)
    (x,) = sample.arrays(3)
    data = [x, *(np.random.default_rng(n).permutation(x.reshape(-1)).reshape(x.shape) for n in range(2))]
    assert rows_of(executable.program)
    expected = [evaluate(main_function(module), [each])[0] for each in data]
    simulator = Simulator(executable.program, device, simulator=by)
    for (got,), wanted in zip(simulator.run_all([[each] for each in data]), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert simulator.by == by
    assert simulator.report is not None
    assert simulator.report.cycles == executable.predicted_cycles


def test_every_form_is_computed_somewhere() -> None:
    forms = {
        (type(c), getattr(c, "division", None), getattr(c, "norm", None), c.source_bits)
        for sample in SAMPLES
        if is_computed(network(sample), WIDE)
        for c in rows_of(qmlir.compile(network(sample), target=WIDE).program)
    }
    assert len([f for f in forms if f[0] is Softmax]) >= 4
    assert len([f for f in forms if f[0] is Normalize]) == 4


def command_of(kind: type[OfRows]) -> OfRows:
    """A command of a kind."""
    for sample in SAMPLES:
        if is_computed(network(sample), WIDE):
            for command in rows_of(qmlir.compile(network(sample), target=WIDE).program):
                if isinstance(command, kind):
                    return command
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", [Softmax, Normalize])
def test_what_a_command_touches(kind: type[OfRows]) -> None:
    """The compiler and the simulator derive the same bytes, each by itself."""
    command = command_of(kind)
    touched = accesses(command, WIDE, {})
    assert touched.footprint == footprint(command, WIDE, {})
    require_access(command, WIDE)
    require_apart(command, touched)


@pytest.mark.parametrize("kind", [Softmax, Normalize])
def test_a_command_that_no_device_executes_is_a_fault(kind: type[OfRows]) -> None:
    command = command_of(kind)
    with pytest.raises(Fault, match="must have a place on the device"):
        accesses(command, load_device("vta"), {})
    within = replace(command, target=command.source, target_row=command.source_row)
    with pytest.raises(Fault, match="must not write its target over its source"):
        require_apart(within, accesses(within, WIDE, {}))
    over = replace(command, target_row=1)
    with pytest.raises(Fault, match="must write each byte of its target once"):
        require_apart(over, accesses(over, WIDE, {}))
    elsewhere = replace(command, source=Place(1, 0))
    with pytest.raises(Fault, match="source must be in a memory that holds"):
        require_access(elsewhere, WIDE)
    array = replace(command, queue=next(n for n, q in enumerate(WIDE.queue) if q.engine == "array"))
    with pytest.raises(Fault, match="must be for a vector engine"):
        require_access(array, WIDE)


HOST = {
    "of columns": "neighbours of a row lie 1 element apart",
    "columns": "neighbours of a row lie 1 element apart",
    "of i16": "the smallest tile must fit the memories, got 262144 bytes of bias in 16384 (memory.bytes)",
    "long rows": "a row has at most 4096 elements, got 5000 (ops.layer_norm.row_max)",
}
"""Note of a sample → why nmp leaves it to the host."""


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.note in HOST], ids=str)
def test_what_stays_on_the_host(sample: Sample) -> None:
    refused = [reason for verdict in judge(network(sample), load_device("nmp")) for reason in verdict.refusals]
    assert any(reason.startswith(HOST[sample.note]) for reason in refused)
    for other in (qint.LogSoftmaxOp, qint.L2NormalizationOp, qint.ExponentialsOp, qint.RowMagnitudesOp):
        module = network(next(s for s in QINT_SAMPLES if s.op is other))
        (verdict,) = judge(module, load_device("nmp"))
        assert verdict.refusals == (f"no device file has a key for {other.name}",)


FLOATS = """
func.func @main(%x: tensor<48x96xf32>) -> tensor<48x96xf32> {
  %0 = nn.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<48x96xf32> -> tensor<48x96xf32>
  %1 = nn.rms_norm %0 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<48x96xf32> -> tensor<48x96xf32>
  %2 = nn.softmax %1 {axis = 1 : i64} : tensor<48x96xf32> -> tensor<48x96xf32>
  func.return %2 : tensor<48x96xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ethos-u55-like", "nmp"])
@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_a_network_of_rows(name: str, precision: str, tmp_path: Path) -> None:
    """Quantized for the device, it runs there, save a table of 16 bits that nmp has no room for."""
    (tmp_path / "net.mlir").write_text(FLOATS)
    rng = np.random.default_rng(5)
    samples = [rng.normal(size=(48, 96)).astype(np.float32) for _ in range(4)]
    device = load_device(name).with_({"fallback.macs_per_cycle": 0.01})
    quantized = qmlir.quantize(tmp_path / "net.mlir", data=samples, target=device, precision=precision)
    executable = qmlir.compile(quantized, target=device)
    fits = name != "nmp" or precision == "int8"
    kinds = [type(command) for command in rows_of(executable.program)]
    assert kinds.count(Normalize) == 2
    assert kinds.count(Softmax) == fits
    for x in samples:
        np.testing.assert_array_equal(executable(x), qmlir.reference(quantized)(x))
    assert executable.report is not None
    assert executable.report.cycles == executable.predicted_cycles


@pytest.mark.slow
@pytest.mark.parametrize("side", ["reads", "writes"])
def test_a_wait_that_is_left_out_is_found(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A softmax waits for its data, and what stores its result waits for it."""
    module = parse_text(make_context(), FLOATS, "network")
    rng = np.random.default_rng(5)
    samples = [rng.normal(size=(48, 96)).astype(np.float32) for _ in range(4)]
    device = load_device("nmp").with_({"fallback.macs_per_cycle": 0.01})
    lowered = to_integers(qmlir.quantize(module, data=samples, target=device))
    before = [name for name in TO_COMMANDS if name not in ("npu-cascade", "npu-order")]
    Pipeline(*to_layers(text_of(device)), *before).apply(lowered, make_context())
    planted(monkeypatch, Softmax, side, 0, nothing)
    with pytest.raises(Fault, match="must wait for"):
        checked(ordered(lowered), device)
