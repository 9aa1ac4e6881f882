"""`quantize-ops`: folds casts into operations, and records for each operation what was decided and why.

Enters: a float network with casts, made by `choose-scales` or imported. Leaves: operations on quantized types where
target and casts allow, f32 operations between `quant.dcast` and `quant.qcast` elsewhere, and a `#qmlir.decision` on
every one of them. Weights become stored integers; biases stay f32 until `quantize-bias`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.ledger import decide, deciding_operations
from qmlir.rewriting import replace, tensor_name
from qmlir.target import Target
from qmlir.transforms.quantize.legality import data_values, storage_name, target_of


@dataclass(frozen=True)
class QuantizeOpsPass(ModulePass):
    """Turns `dcast → operation → qcast` into the operation on quantized types where the target has it.

    ```mlir
    %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    %1 = nn.sigmoid %0 : tensor<4xf32> -> tensor<4xf32>
    %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
    // becomes
    %2 = nn.sigmoid %a : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
    ```
    """

    name = "quantize-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        _fold_constant_casts(op)
        for operation in list(deciding_operations(op)):
            _decide_operation(operation, target)
        _erase_unused(op)


def _fold_constant_casts(module: ModuleOp) -> None:
    """A quantize cast of a constant becomes a constant of the quantized type."""
    for cast in [o for o in module.walk() if isinstance(o, QuantizeCastOp)]:
        constant = cast.input.owner
        if isinstance(constant, ConstantOp):
            (stored,) = cast.evaluate(constant.value.array)
            type = cast.result.type
            assert isinstance(type, TensorType)
            replace(PatternRewriter(cast), cast, ConstantOp(stored, type, dict(constant.attributes)))


def _decide_operation(op: Operation, target: Target) -> None:
    if isinstance(op, OpaqueOp):
        decide(op, "float", "unknown", f"{op.kind.data} is not known to qmlir: {op.reason.data}")
        return
    if not data_values(op) or not any(map(is_float, data_values(op))):
        return  # quantized already, or on integers
    sources = [_quantized_source(v) for v in _data_operands(op)]
    result = _wanted_result(op, sources)
    if (why := _why_float(op, sources, result, target)) is not None:
        decide(op, "float", *why)
        return
    assert result is not None
    operands = [s for s in sources if s is not None]
    quantized = _quantize(op, operands, result)
    if isinstance(op, MovementOp):
        decide(quantized, "quantized", "moved", f"moves {storage_name(result.storage)} values")
    else:
        decide(quantized, "quantized", "integer", _describe(quantized, result))


def _data_operands(op: Operation) -> Sequence[SSAValue]:
    return data_values(op)[: -len(op.results)]


def _quantized_source(value: SSAValue) -> SSAValue | None:
    """The quantized value that a float operand is a cast of."""
    return value.owner.input if isinstance(value.owner, DequantizeCastOp) else None


def _wanted_result(op: Operation, sources: Sequence[SSAValue | None]) -> UniformType | None:
    """The quantized type the readers of a result ask for; an operation of one scale keeps its operand's."""
    for use in op.results[0].uses:
        if isinstance(use.operation, QuantizeCastOp):
            element = element_of(use.operation.result)
            assert isinstance(element, UniformType)
            return element
    if op.has_trait(SameScale, value_if_unregistered=False) and sources and sources[0] is not None:
        element = element_of(sources[0])
        assert isinstance(element, UniformType)
        return element
    return None


def _why_float(
    op: Operation, sources: Sequence[SSAValue | None], result: UniformType | None, target: Target
) -> tuple[str, str] | None:
    """The code and the sentence that say why an operation stays float; None if it need not."""
    if isinstance(op, WeightedOp) and not isinstance(_uncast(op.w).owner, ConstantOp):
        return "computed-weights", "its weights are computed at run time; only constant weights can be quantized"
    known = next((element_of(s) for s in sources if s is not None), result)
    storage = storage_name(known.storage) if isinstance(known, UniformType) else "i8"
    if (reason := target.why_float(op.name, storage)) is not None:
        return "target", reason
    lacking = [v for v, s in zip(_data_operands(op), sources, strict=True) if s is None]
    if result is None:
        lacking.append(op.results[0])
    if lacking:
        names = ", ".join(dict.fromkeys(f'"{tensor_name(_uncast(v)) or "unnamed"}"' for v in lacking))
        return "no-range", f"no range is known for {names}; profile the network, or write a range in the IR"
    return None


def _uncast(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    return value


def _quantize(op: Operation, sources: Sequence[SSAValue], result: UniformType) -> Operation:
    """Rebuilds an operation on quantized operands; its float readers get a cast back."""
    rewriter = PatternRewriter(op)
    operands = list(op.operands)
    operands[: len(sources)] = sources
    kept = result
    if op.has_trait(SameScale, value_if_unregistered=False):
        first = element_of(sources[0])
        assert isinstance(first, UniformType)
        # One operand: the operation keeps its type and a requantization follows. Several, as in a concat: each is
        # brought to the result's type first.
        if len(sources) == 1:
            kept = first
        else:
            operands[: len(sources)] = [_to_type(s, result, rewriter) for s in sources]
    type = TensorType(kept, shape_of(op.results[0]))
    quantized = op.create(
        operands=operands, result_types=[type], properties=dict(op.properties), attributes=dict(op.attributes)
    )
    back = DequantizeCastOp(quantized.results[0], op.results[0].type)
    casts = [u.operation for u in op.results[0].uses if isinstance(u.operation, QuantizeCastOp)]
    replace(rewriter, op, [quantized, back])
    # replace gives the names to the last operation; they belong to the one that computes.
    if (name := back.attributes.pop("qmlir.name", None)) is not None:
        quantized.attributes["qmlir.name"] = name
    for cast in casts:
        if cast.result.type == type:
            PatternRewriter(cast).replace(cast, [], [quantized.results[0]])
        else:
            PatternRewriter(cast).replace(cast, RequantizeOp.make([quantized.results[0]], element=element_of(cast.result)))
    return quantized


def _to_type(value: SSAValue, element: UniformType, rewriter: PatternRewriter) -> SSAValue:
    if element_of(value) == element:
        return value
    requantize = RequantizeOp.make([value], element=element)
    rewriter.insert(requantize, InsertPoint.before(rewriter.current_operation))
    return requantize.y


def _describe(op: Operation, result: UniformType) -> str:
    text = f"{storage_name(result.storage)} activations"
    if isinstance(op, WeightedOp):
        weights = element_of(op.w)
        assert isinstance(weights, UniformType)
        text += f", {storage_name(weights.storage)} weights per {'channel' if weights.is_per_axis else 'tensor'}"
    return text


def _erase_unused(module: ModuleOp) -> None:
    """Removes casts and constants that nothing reads any more."""
    for op in reversed(list(module.walk())):
        if isinstance(op, QuantizeCastOp | DequantizeCastOp | ConstantOp) and not any(r.uses for r in op.results):
            PatternRewriter(op).erase(op)
