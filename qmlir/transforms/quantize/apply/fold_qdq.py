"""`fold-qdq`: turns a network with casts, the form of imported quantized models, into operations on quantized types.

Enters: float nn with `quant.qcast` and `quant.dcast`. A float subgraph is `dcast → operation → qcast`, a float
    operation
between casts. Leaves: an operation on quantized types in place of each float subgraph that has an integer form, with
the model's own scales and zero points; floats between casts elsewhere; and a decision with its reason on every
operation. An operation that stays float can still be quantized with samples or a profile. Its first part,
`gather-casts`, moves the casts next to the operations that compute.

An average pool has one scale for operand and result. If the model gives the result parameters of its own, the average
is first rewritten as a depthwise convolution with equal weights, which rounds only once.
"""

from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import AveragePool2DOp, ConstantOp, DepthwiseConv2DOp, ReluOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.reduction import AdditionOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.facts import ON_FLOATS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import replace, rewrite
from qmlir.policies.float_rounding import state_addition, state_cast
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follows_litert, runtime_of
from qmlir.transforms.nn.cancel_transposes import cancel_transposes
from qmlir.transforms.nn.fold_pads import FoldPadsPass
from qmlir.transforms.nn.name_functions.functions import EXPORTED, NAMES
from qmlir.transforms.nn.name_functions.name_functions import name, name_all
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.apply.cancel_casts import CancelCastsPass
from qmlir.transforms.quantize.apply.move_casts import move_casts
from qmlir.transforms.quantize.apply.on_floats import computes_on_floats
from qmlir.transforms.quantize.apply.quantize_bias import QuantizeBiasPass
from qmlir.transforms.quantize.apply.quantize_ops import QuantizeOpsPass
from qmlir.transforms.quantize.apply.spelled_functions import SPELLED, JoinInterpolations, NameInterpolation


class FoldQDQPass(ModulePass):
    """Turns float operations between casts into operations on quantized types: simplify, move-casts, quantize-ops etc.

    ```mlir
    %0 = quant.dcast %a : tensor<4x!quant.uniform<u8:f32, 0.5>> to tensor<4xf32>
    %1 = nn.add %0, %0 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 1.0>>
    // becomes
    %2 = nn.add %a, %a {qmlir.decision = …} : …
    ```
    """

    name = "fold-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_qdq(op, ctx)


def fold_qdq(module: ModuleOp, ctx: Context | None = None) -> None:
    """Turns the float operations between a module's casts into operations on quantized types."""
    if not has_casts(module):
        return
    gather_casts(module)
    for step in (QuantizeOpsPass(), QuantizeBiasPass(), CancelCastsPass()):
        step.apply(ctx or make_context(), module)


class GatherCastsPass(ModulePass):
    """Moves the casts of an imported network next to the operations that compute.

    ```mlir
    %0 = quant.dcast %a : tensor<1x4x!quant.uniform<u8:f32, 0.5>> to tensor<1x4xf32>
    %1 = nn.reshape %0 : tensor<1x4xf32> -> tensor<4xf32>
    %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
    // becomes
    %0 = nn.reshape %a : tensor<1x4x!quant.uniform<u8:f32, 0.5>> -> tensor<4x!quant.uniform<u8:f32, 0.5>>
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<u8:f32, 0.5>> to tensor<4xf32>
    %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "gather-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gather_casts(op)


def has_casts(module: ModuleOp) -> bool:
    """Whether anything in a module is quantized or dequantized."""
    return any(isinstance(o, QuantizeCastOp | DequantizeCastOp) for o in module.walk())


def is_as_imported(module: ModuleOp) -> bool:
    """Whether a module has casts, and no decision is recorded on any operation yet."""
    return has_casts(module) and not decisions(module)


def gather_casts(module: ModuleOp) -> None:
    """Moves the casts of an imported network next to the operations that compute."""
    simplify(module)
    if not follows_litert(runtime_of(module)):  # LiteRT computes on floats what the model has on floats
        rewrite(module, (NameInterpolation(), JoinInterpolations(), *SPELLED))
        name_all(module, partial(name, names=(*NAMES, *EXPORTED)))
    _state_rounding(module)
    # Transposes sink through casts until they cancel; then casts move past the transposes that are left.
    move_casts(module)
    cancel_transposes(module)
    move_casts(module)
    FoldPadsPass.run(module)
    rewrite(module, (TurnAverageIntoConvolution(), KeepSteps()))
    _state_rounding(module)


def _state_rounding(module: ModuleOp) -> None:
    """States on casts, sums and pools how the followed runtime rounds, so that constants are folded as they would run.

    Casts that the quantizer inserts later round the constants that it chooses exactly. Of the dequantizations, only
    those are the model's operators that have a mark.
    """
    runtime = runtime_of(module)
    for op in module.walk():
        if isinstance(op, QuantizeCastOp) or (isinstance(op, DequantizeCastOp) and ON_FLOATS.on(op)):
            state_cast(op, runtime)
        elif isinstance(op, AdditionOp):
            state_addition(op, runtime)


class KeepSteps(RewritePattern):
    """relu(dcast(q)) → dcast(qcast(relu(dcast(q)))), of the type of q, which holds every result exactly.

    A network whose activation has no parameters of its own quantizes before it: Conv, QuantizeLinear,
    DequantizeLinear, Relu. A layer that reads the activation can then be computed on integers.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReluOp, rewriter: PatternRewriter) -> None:
        source, readers = op.x.owner, [u.operation for u in op.y.uses]
        if not isinstance(source, DequantizeCastOp) or computes_on_floats(op):
            return
        if not any(isinstance(r, WeightedOp) for r in readers) or any(isinstance(r, QuantizeCastOp) for r in readers):
            return
        again = ReluOp.make([op.x])
        quantized = QuantizeCastOp(again.y, source.input.type)
        replace(rewriter, op, [again, quantized, DequantizeCastOp(quantized.result, op.y.type)], doing=again)


class TurnAverageIntoConvolution(RewritePattern):
    """qcast(average_pool(dcast(q))) of two types → a depthwise convolution with weights 1 of scale 1/n.

    The divisor n must be the same at all positions; padded elements count as zeros in both operations. 1/n is rounded
    to float32, as every scale of a model file is, so that a file with the exported convolution has the same scale.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AveragePool2DOp, rewriter: PatternRewriter) -> None:
        source = op.x.owner
        casts = [u.operation for u in op.y.uses if isinstance(u.operation, QuantizeCastOp)]
        counts = np.unique(op.counts())
        if not isinstance(source, DequantizeCastOp) or not casts or counts.size != 1 or computes_on_floats(op):
            return
        if all(element_of(c.result) == element_of(source.input) for c in casts):
            return
        ones = np.ones((1, *op.window_values(), shape_of(op.x)[3]), np.int8)
        type = TensorType(UniformType.per_tensor(i8, float(np.float32(1.0 / counts[0]))), ones.shape)
        constant = ConstantOp(ones, type)
        weights = DequantizeCastOp(constant.y, TensorType(element_of(op.x), ones.shape))
        kept = {k: v for k, v in op.properties.items() if k in ("strides", "padding", "dilations")}
        replace(rewriter, op, [constant, weights, DepthwiseConv2DOp.make([op.x, weights.result, []], kept)])
