"""What operations multiply, store and move, and their tensors' parameters, counted by hand for a few operations."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.analysis.counts import Decided, KindCount, decided, figures_of, kinds, kinds_table, totals
from qmlir.compiler import main_function
from qmlir.dialects.nn import ConstantOp
from qmlir.policies.ledger import Entry
from tests.transforms.quantize.calibrated import parsed

WEIGHTS_ALONE = """
func.func @main(%x: tensor<1x8xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x2xf32> {
  %s = nn.constant <tensor<2x8xi8>, [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]> {qmlir.name = #qmlir.name<tensors ["w"]>}
    : tensor<2x8x!quant.uniform<i8<-127:127>:f32:0, {0.5,0.25:3}>>
  %w = quant.dcast %s : tensor<2x8x!quant.uniform<i8<-127:127>:f32:0, {0.5,0.25:3}>> to tensor<2x8xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x8xf32>, tensor<2x8xf32> -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
"""


def operation(text: str) -> Operation:
    module: ModuleOp = parsed(text)
    return next(
        o for o in main_function(module).body.block.ops if o.name.startswith("nn.") and not isinstance(o, ConstantOp)
    )


def test_weights_count_as_they_are_stored() -> None:
    figures = figures_of(operation(WEIGHTS_ALONE))
    assert (figures.macs, figures.weight_bytes, figures.activation_bytes) == (16, 16, 4 * 8 + 4 * 2)
    data, weights = figures.operands
    assert (data.name, data.type, data.scales, data.constant) == ("x", "f32", None, False)
    assert (weights.name, weights.type, weights.constant) == ("w", "i8", True)
    assert (weights.scales, weights.zero_points, weights.axis) == ((0.5, 0.25), (0, 3), 0)


def test_bytes_of_narrow_types() -> None:
    for element, stored, bytes in (
        ("!quant.uniform<i4:f32, 0.5>", "i4", 5),
        ("!quant.uniform<u8:f32, 0.5:128>", "u8", 9),
        ("i1", "i1", 9),
        ("i64", "i64", 72),
        ("bf16", "bf16", 18),
    ):
        type = f"tensor<3x3x{element}>"
        moved = f"nn.transpose %x {{permutation = array<i64: 1, 0>}} : {type} -> {type}"
        text = f"func.func @main(%x: {type}) -> {type} {{\n%0 = {moved}\nfunc.return %0 : {type}\n}}"
        figures = figures_of(operation(text))
        assert [(t.type, t.bytes) for t in (*figures.operands, *figures.results)] == [(stored, bytes)] * 2
        assert (figures.macs, figures.weight_bytes, figures.activation_bytes) == (0, 0, 2 * bytes)


def test_totals() -> None:
    done, left = Entry("a", "nn.relu", "quantized", "integer", ""), Entry("b", "nn.relu", "float", "target", "")
    network = [Decided(done, {"macs": 3, "weight_bytes": 5}), Decided(left, {"macs": 4, "weight_bytes": 6})]
    expected = {"operations": 2, "quantized": 1, "float": 1, "macs": 7, "quantized_macs": 3, "weight_bytes": 11}
    expected["data_free"] = 0
    assert totals(network) == expected
    assert totals([*network, Decided(left)])["macs"] is None
    assert decided(parsed(WEIGHTS_ALONE)) == []  # nothing was decided about it


def quantized_to(stored: str | None, kind: str = "nn.relu") -> Decided:
    figures = {} if stored is None else {"results": [{"type": stored, "scales": [0.5]}], "operands": []}
    return Decided(Entry("a", kind, "quantized", "integer", ""), figures)


def test_kinds_count_precisions_and_floats() -> None:
    left = Decided(Entry("b", "nn.relu", "float", "target", ""), {"results": [], "operands": []})
    conv = quantized_to("i16", "nn.conv2d")
    network = [conv, quantized_to("u8"), left, quantized_to("i8"), quantized_to("u8")]
    counts = kinds(network)
    assert counts == [KindCount("nn.relu", {"int8": 1, "uint8": 2}, 1), KindCount("nn.conv2d", {"int16": 1}, 0)]
    assert [each.count for each in counts] == [4, 1]
    assert kinds_table(counts) == (
        ("count", "int16", "int8", "uint8", "float"),
        [("nn.relu", 4, None, 1, 2, 1), ("nn.conv2d", 1, 1, None, None, None)],
    )
    assert kinds_table(kinds([conv])) == (("count", "int16"), [("nn.conv2d", 1, 1)])


def test_kinds_of_a_ledger_without_figures() -> None:
    assert kinds([quantized_to(None)]) == [KindCount("nn.relu", {"quantized": 1}, 0)]
