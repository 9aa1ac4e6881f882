"""`quantize-ops`: folds casts into operations, and records for each operation what was decided and why.

Enters: a float network with casts, made by `choose-scales` or imported. Leaves: operations on quantized types where
casts allow it and an integer form exists (legality.py), f32 operations between `quant.dcast` and `quant.qcast`
elsewhere, and a `#qmlir.decision` on every operation. Weights become stored integers; biases stay f32 until
`quantize-bias`.
"""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, Float32Type, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import (
    BlockedFullyConnectedOp,
    CastOp,
    ConstantOp,
    FullyConnectedOp,
    MatMulOp,
    MaximumOp,
    MinimumOp,
    RequantizeOp,
)
from qmlir.dialects.nn.base import NNOp, is_float, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import (
    QuantizableOp,
    data_operands,
    data_results,
    data_values,
    storage_name,
    uniform,
)
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import restated
from qmlir.ir.facts import ON_FLOATS, RESIDUAL, ROTATED, UNROUNDED
from qmlir.ir.interfaces import TensorOp, element_of, shape_of, tensor_type
from qmlir.ir.levels import levels_of, with_other_values
from qmlir.ir.rewriting import replace
from qmlir.ir.signature import defined_functions
from qmlir.ir.traversal import reached
from qmlir.ir.types import element_type, is_integer
from qmlir.ir.weights import Weights, WeightsAttr, sealed
from qmlir.policies.conversions import converted_integers, quantized_integers
from qmlir.policies.ledger import BRANCHES, decide, deciding_operations, decision_of, noted_methods
from qmlir.policies.legality import require_integer_form, target_of
from qmlir.policies.runtime_kernels import (
    compared_storage,
    depending_on_library,
    followed_runtime,
    rounded_as_default,
    stores_signed,
)
from qmlir.policies.runtimes import runtime_of
from qmlir.transforms.quantize.apply.move_casts import holds_padding
from qmlir.transforms.quantize.apply.on_floats import (
    argument_of,
    computes_on_floats,
    domain_clamp,
    follows,
    has_table,
    moves_numbers,
)
from qmlir.transforms.quantize.apply.one_scale import in_one_scale
from qmlir.transforms.quantize.reasons import (
    COMPUTED_ON_FLOATS,
    DELIVERED,
    SHARED,
    blocked,
    leave_float,
    on_other_floats,
    unknown,
    why_without_casts,
)


class QuantizeOpsPass(ModulePass):
    """Turns `dcast → operation → qcast` into an operation on quantized types where the target computes it in integers.

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
        folding = _Folding(op, target_of(ctx))
        for operation in list(deciding_operations(op)):
            folding.decide(operation)
        folding.finish()
        _erase_unused(op)
        for function in defined_functions(op):
            _decide_other_floats(function.body.block)
            if stores_signed(function, runtime_of(op)):
                _decide_as_signed(function.body.block)


def decide_quantized(op: Operation, target: Target) -> None:
    """Records the decision about an operation on quantized types: that it is computed in integers, or why not."""
    try:
        require_integer_form(op, target)
    except UnsupportedError as why:
        leave_float(op, why)
    else:
        _record_quantized(op)


def _decide_as_signed(block: Block) -> None:
    """Records integer decisions again, for a .tflite file that stores all bytes as signed bytes.

    Which kernels LiteRT has, and so how operations round, depends on the bytes that the file stores.
    """
    for op in block.ops:
        decision = decision_of(op)
        if decision is None or not data_values(op):  # conversions of plain integers are kernels without bytes
            continue
        if (decision.outcome.data, decision.code.data) == ("quantized", "integer"):
            _record_quantized(op, signed=True)


def _weights_in_words(op: WeightedOp) -> str:
    """What the quantized weights of an operation are, for people."""
    weights, levels = uniform(op.w), levels_of(op.w.owner) if isinstance(op.w.owner, ConstantOp) else None
    storage, per = storage_name(weights.storage), "channel" if weights.is_per_axis else "tensor"
    return f"{storage} weights per {per}" if levels is None else levels.described(storage, per)


def _record_quantized(op: Operation, *, signed: bool = False) -> None:
    storage, runtime = storage_name(uniform(data_values(op)[-1]).storage), followed_runtime(op)
    if not data_results(op):
        decide(op, "quantized", "compared", f"compares {storage} values")
    elif isinstance(op, MovementOp):
        coarse = noted_methods(op).get(BRANCHES)
        decide(op, "quantized", "moved", f"moves {storage} values" + (f"; {coarse}" if coarse else ""))
    else:
        data = uniform(data_operands(op)[0]).storage
        mixed = (
            isinstance(op, WeightedOp | MatMulOp | BlockedFullyConnectedOp) and data != uniform(op.results[0]).storage
        )
        text = f"{storage_name(data)} activations, {storage} results" if mixed else f"{storage} activations"
        if isinstance(op, WeightedOp):
            text += f", {_weights_in_words(op)}"
        elif isinstance(op, BlockedFullyConnectedOp):
            stored = element_of(op.w)
            text += f", {storage_name(stored) if is_integer(stored) else stored} weights in blocks of {op.size}"
        elif isinstance(op, MatMulOp) and any(isinstance(x.owner, ConstantOp) for x in (op.lhs, op.rhs)):
            text += ", a constant factor per tensor: it has a matrix for each of a batch"
        if ON_FLOATS.on(op):
            text += ", a table of what the model computes on floats"
        elif why := rounded_as_default(op, runtime, signed=signed):
            text += f", rounded as by default: {why}"
        elif why := depending_on_library(op, runtime):
            text += f"; {why}"
        elif runtime != "default" and isinstance(op, QuantizableOp) and (lost := op.lost_sums()):
            text += f"; {lost} in {runtime}, where they become 0"
        text += "".join(f", {why}" for fact in (RESIDUAL, ROTATED) if (why := fact.of(op)) is not None)
        text += "".join(f", {setting} by {method}" for setting, method in noted_methods(op).items())
        decide(op, "quantized", "integer", text)


def _decide_other_floats(block: Block) -> None:
    """Records that operations on other floats than f32 stay float, as do float operations between quantized values.

    A float value lies between quantized values if it is computed from a quantized value and a quantized value is
    computed from it. Casts of floats at the edges of a network belong to its signature and are not recorded.
    """
    operations = [o for o in block.ops if o.results]
    behind: set[SSAValue] = set()
    for op in operations:
        if isinstance(op, DequantizeCastOp) or not behind.isdisjoint(op.operands):
            behind.update(op.results)
    before: set[SSAValue] = set()
    for op in reversed(operations):
        if isinstance(op, QuantizeCastOp) or not before.isdisjoint(op.results):
            before.update(op.operands)
    for op in operations:
        if decision_of(op) is not None or not isinstance(op, TensorOp) or isinstance(op, ConstantOp):
            continue
        if isinstance(op, CastOp) and _converts_integers(op):
            decide(op, "quantized", "integer", f"converts {element_of(op.x)} to {element_of(op.y)} in integers")
            continue
        floats = [e for v in (*op.operands, *op.results) if isinstance(e := element_type(v.type), AnyFloat)]
        between = not behind.isdisjoint(op.operands) and not before.isdisjoint(op.results)
        if floats and (between or isinstance(op, NNOp)):
            others = ", ".join(dict.fromkeys(str(e) for e in floats if not isinstance(e, Float32Type))) or "f32"
            leave_float(op, on_other_floats(others, between=between))


def _converts_integers(op: CastOp) -> bool:
    """Whether a conversion from or to plain integers becomes a table of stored integers, or a choice."""
    casts = [u.operation for u in op.y.uses]
    quantizes = [isinstance(c, QuantizeCastOp) and quantized_integers(c) is not None for c in casts]
    return converted_integers(op) is not None or (bool(casts) and all(quantizes))


class _Folding:
    """The state of the pass on one module.

    folded   stored constant → the float constant that it was made from
    stored   the integers of constants: equal ones, as those of a table and of a layer that shares it, are one array
    weights  fully connected layer → the cast of weights that it alone reads, which is folded when the layer is
             decided: the floats of all layers need not stay in memory until all integers are there
    """

    def __init__(self, module: ModuleOp, target: Target):
        self.target = target
        self.folded: dict[SSAValue, SSAValue] = {}
        self.stored: dict[Weights, Weights] = {}
        self.weights: dict[Operation, QuantizeCastOp] = {}
        for cast in [o for o in module.walk() if isinstance(o, QuantizeCastOp)]:
            if (layer := _layer_of_weights(cast)) is not None:
                self.weights[layer] = cast
            else:
                self._fold_constant(cast)

    def _fold_constant(self, cast: QuantizeCastOp) -> None:
        """Replaces a quantize cast of a constant, float or dequantized, by a constant of the quantized type."""
        constant = cast.input.owner
        if isinstance(constant, DequantizeCastOp) and isinstance(constant.input.owner, ConstantOp):
            self._fold_dequantized(cast, constant, constant.input.owner)
        elif isinstance(constant, ConstantOp):
            (stored,) = cast.evaluate(constant.value.array)
            constant.value.data.release()
            integers = Weights(sealed(stored))
            integers = self.stored.setdefault(integers, integers)
            new = ConstantOp(
                WeightsAttr(integers), tensor_type(cast.result), UNROUNDED.without(with_other_values(constant))
            )
            replace(PatternRewriter(cast), cast, new)
            self.folded[new.y] = constant.y

    def _fold_dequantized(self, cast: QuantizeCastOp, back: DequantizeCastOp, constant: ConstantOp) -> None:
        """Rounds a stored constant to another scale now, as floats are rounded, instead of requantizing it at run time.

        When a model file that has the two casts is read, the same arithmetic folds them.
        """
        (floats,) = back.evaluate(constant.value.array)
        (stored,) = cast.evaluate(floats)
        new = ConstantOp(stored, tensor_type(cast.result), restated(constant))
        replace(PatternRewriter(cast), cast, new)
        if not ON_FLOATS.on(back):
            self.folded[new.y] = back.result

    def finish(self) -> None:
        """Folds the weights of layers that were not decided."""
        for cast in self.weights.values():
            self._fold_constant(cast)

    def decide(self, op: Operation) -> None:
        """Quantizes an operation if possible, and records the decision."""
        cast = self.weights.pop(op, None)
        if cast is None:
            self._decide(op)
            return
        constant = cast.input.owner
        assert isinstance(constant, ConstantOp)
        self._fold_constant(cast)
        self._decide(op)
        if not constant.y.uses:
            self.folded = {stored: floats for stored, floats in self.folded.items() if floats is not constant.y}
            PatternRewriter(constant).erase(constant)
            constant.properties.clear()  # frees the array; the operation is garbage that is collected later

    def _decide(self, op: Operation) -> None:
        if isinstance(op, OpaqueOp):
            leave_float(op, unknown(op))
        elif any(map(is_float, data_values(op))):
            self._decide_float(op)
        elif any(map(is_quantized, data_values(op))) and decision_of(op) is None:
            decide_quantized(op, self.target)

    def _decide_float(self, op: Operation) -> None:
        if sources := compared_storage(op, followed_runtime(op)):
            decide(
                op, "quantized", "compared", f"compares {storage_name(uniform(sources[0]).storage)} values as LiteRT"
            )
            return
        if (reason := blocked(op)) is not None:
            leave_float(op, reason)
            return
        held = decision_of(op)
        if held is not None and (held.outcome.data == "float" or (held.code.data == DELIVERED.code and _ends(op))):
            return  # choose-scales decided so, and knows more than the casts show
        sources = [_source_of(op, v) for v in data_operands(op)]
        result = _wanted_result(op, sources)
        known = [s for s in sources if s is not None]
        if (result is None and data_results(op)) or len(known) < len(sources):
            leave_float(op, why_without_casts(op, sources, result, self.target))
            return
        if result is not None and not _is_read_as(op.results[0], result) and not _keeps_numbers(op, known):
            leave_float(op, SHARED)
            return
        new = _quantized_form(op, known, result)
        try:
            if computes_on_floats(op, self.folded):
                _require_same_bits(new)
            for made in new:
                require_integer_form(made, self.target)
        except UnsupportedError as why:
            for made in reversed(new):
                made.erase()
            self._read_float_constants(op, sources)
            leave_float(op, why)
            return
        self._commit(op, new)

    def _read_float_constants(self, op: Operation, sources: Sequence[SSAValue | None]) -> None:
        """Makes an operation that stays float read its constants unrounded."""
        for index, source in enumerate(sources):
            if source is not None and source in self.folded:
                op.operands[index] = _unrounded(self.folded[source])

    def _commit(self, op: Operation, new: Sequence[Operation]) -> None:
        """Replaces `op` by its quantized form; float readers read the result through a dequantize cast."""
        quantized = new[-1]
        if not data_results(op):
            replace(PatternRewriter(op), op, new)
            _record_quantized(quantized)
            return
        back = DequantizeCastOp(quantized.results[0], op.results[0].type)
        if computes_on_floats(op, self.folded):
            ON_FLOATS.put(back)
        casts = [u.operation for u in op.results[0].uses if isinstance(u.operation, QuantizeCastOp)]
        clamp = domain_clamp(op)
        replace(PatternRewriter(op), op, [*new, back], absorbing=[] if clamp is None else [clamp], doing=quantized)
        for made in new:
            _record_quantized(made)
        for cast in casts:
            self._replace_cast(cast, back)

    def _replace_cast(self, cast: QuantizeCastOp, back: DequantizeCastOp) -> None:
        """Replaces a quantize cast of a result that is quantized now: by the result itself, or by a change of scale."""
        if cast.result.type == back.input.type:
            replace(PatternRewriter(cast), cast, [], [back.input])
        elif (requantize := change_of_scale(cast, back)) is not None:
            replace(PatternRewriter(cast), cast, requantize)
            decide_quantized(requantize, self.target)


def _layer_of_weights(cast: QuantizeCastOp) -> FullyConnectedOp | None:
    """The fully connected layer that alone reads the casts of a float constant, as its weights; None for others."""
    back = [use.operation for use in cast.result.uses]
    if not isinstance(cast.input.owner, ConstantOp) or len(back) != 1 or not isinstance(back[0], DequantizeCastOp):
        return None
    readers = [(use.operation, use.index) for use in back[0].result.uses]
    if len(readers) != 1 or len(list(cast.input.uses)) != 1:
        return None
    layer, place = readers[0]
    return layer if isinstance(layer, FullyConnectedOp) and place == 1 else None


def change_of_scale(cast: QuantizeCastOp, back: DequantizeCastOp) -> RequantizeOp | None:
    """The requantization that replaces a dequantize cast and a quantize cast of its result.

    None where the followed runtime computes both casts on floats and no table gives the same bits.
    """
    new = RequantizeOp.make([back.input], element=element_of(cast.result))
    if ON_FLOATS.on(cast) and ON_FLOATS.on(back) and follows(cast):
        if not has_table(new):
            new.erase()
            return None
        ON_FLOATS.put(new)
    return new


def _require_same_bits(new: Sequence[Operation]) -> None:
    """Marks the integer form of an operation that the followed runtime computes on floats, if it gives the same bits.

    Raises:
        UnsupportedError: The integer form gives other bits.
    """
    for op in new:
        if moves_numbers(op):
            continue
        if not has_table(op):
            raise UnsupportedError(COMPUTED_ON_FLOATS.sentence, code=COMPUTED_ON_FLOATS.code)
        ON_FLOATS.put(op)


def _ends(op: Operation) -> bool:
    """Whether no quantize cast follows data movement that moves results of the network."""
    found = reached(
        [*op.results], lambda v: [r for u in v.uses if isinstance(u.operation, MovementOp) for r in u.operation.results]
    )
    return not any(isinstance(u.operation, QuantizeCastOp) for v in found for u in v.uses)


def _unrounded(value: SSAValue) -> SSAValue:
    """The constant with the float network's values if `round-weights` replaced these; else the given value."""
    constant = value.owner
    if not isinstance(constant, ConstantOp) or (held := UNROUNDED.of(constant)) is None:
        return value
    new = ConstantOp(held, tensor_type(value), restated(constant, but=UNROUNDED))
    new.y.name_hint = value.name_hint
    Rewriter.insert_op(new, InsertPoint.before(constant))
    return new.y


def _source_of(op: Operation, operand: SSAValue) -> SSAValue | None:
    """The quantized value that a float operand is dequantized from; None if it does not come from a dequantize cast.

    A constant whose scales lie along an axis for which the operation has no integer form is read in one scale, if it
    has the same numbers in it.
    """
    cast = argument_of(op, operand).owner
    if not isinstance(cast, DequantizeCastOp):
        return None
    per_channel = isinstance(op, WeightedOp) and operand is op.w and cast.quantized.axis == op.CHANNEL_AXIS
    return cast.input if per_channel else in_one_scale(cast.input)


def _wanted_result(op: Operation, sources: Sequence[SSAValue | None]) -> UniformType | None:
    """The quantized type that readers ask for; if they ask for no type, the operand's where only numbers are moved.

    None also if the results are not data but truth values or indices.
    """
    if not data_results(op):
        return None
    for use in op.results[0].uses:
        if isinstance(use.operation, QuantizeCastOp):
            return uniform(use.operation.result)
    known = [s for s in sources if s is not None]
    return uniform(known[0]) if known and _keeps_numbers(op, known) else None


def _keeps_numbers(op: Operation, sources: Sequence[SSAValue]) -> bool:
    """Whether an operation's result holds numbers of its quantized operands exactly, without rounding.

    An average of integers is rounded, operands of several types are brought to one type, and the type may not hold the
    value that a pad fills with.
    """
    types = {uniform(s) for s in sources}
    return keeps_scale(op) and moves_numbers(op) and len(types) == 1 and holds_padding(op, *types)


def _is_read_as(value: SSAValue, type: UniformType) -> bool:
    """Whether all readers of a value are quantize casts to one given type."""
    readers = [u.operation for u in value.uses]
    return all(isinstance(r, QuantizeCastOp) and r.quantized_type == type for r in readers)


def _quantized_form(op: Operation, sources: Sequence[SSAValue], result: UniformType | None) -> list[Operation]:
    """The requantizations that bring the operands to one scale, then the operation on them; not in the graph yet.

    `result` is the type of the result; None if the result is not data.
    """
    new: list[Operation] = []
    types = {uniform(s) for s in sources}
    if result is None:
        return [_on(op, sources, op.results[0].type)]
    if isinstance(op, MaximumOp | MinimumOp) and len(types) == 1:
        (result,) = types  # the greater integer is the greater number; a change of scale can follow
    elif keeps_scale(op):
        # A single operand's type stays; a change of scale can follow. Several operands, as in a concat, all get the
        # result's type.
        if len(sources) == 1:
            result = uniform(sources[0])
        changes = [None if uniform(s) == result else RequantizeOp.make([s], element=result) for s in sources]
        new += [c for c in changes if c is not None]
        sources = [s if c is None else c.y for s, c in zip(sources, changes, strict=True)]
    return [*new, _on(op, sources, TensorType(result, shape_of(op.results[0])))]


def _on(op: Operation, sources: Sequence[SSAValue], result: Attribute) -> Operation:
    """The operation on other data operands, with a result of the given type."""
    data = dict(zip(data_operands(op), sources, strict=True))
    return op.create(
        operands=[data.get(operand, operand) for operand in op.operands],
        result_types=[result],
        properties=dict(op.properties),
        attributes=restated(op),
    )


def _erase_unused(module: ModuleOp) -> None:
    """Removes casts and constants that nothing reads any more."""
    for op in reversed(list(module.walk())):
        if isinstance(op, QuantizeCastOp | DequantizeCastOp | ConstantOp) and not any(r.uses for r in op.results):
            PatternRewriter(op).erase(op)
