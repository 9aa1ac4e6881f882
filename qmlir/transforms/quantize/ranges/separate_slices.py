"""`separate-slices`: moves a function behind slices of its result that need a scale of their own.

Frontends compute the gates of a recurrent cell with one sigmoid and slice its result. The sigmoid's result then has
one scale for all gates, 1/256 for int8, under which a gate near 0.0005 is always 0. An elementwise function may move
behind the slice:

    slice(f(x)) → f(slice(x))

so that the gate has a tensor and a scale of its own. Slices that f's fixed scale suits still share one f.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.rules import FixedScale
from qmlir.dialects.target import Target
from qmlir.ir.fact import restated
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import set_names
from qmlir.ir.signature import defined_functions
from qmlir.policies.legality import target_of
from qmlir.settings.quant_config import OpConfig, config_of
from qmlir.transforms.quantize.op_configs import OpConfigs

MOVED = (SliceOp, ReshapeOp, TransposeOp)
"""Data movement that may stand between a function and a slice of its result; slices among it."""


@dataclass(frozen=True)
class SeparateSlicesPass(ModulePass):
    """Moves functions with a fixed scale behind slices of their results that the scale does not suit.

    The observer of a slice holds the slice's range. If a slice stays where it is, its observer is removed, since it has
    the scale of the function.

    ```mlir
    %0 = nn.sigmoid %x : tensor<1x8xf32> -> tensor<1x8xf32>
    calib.observe %0 {name = "gates", range = [0.0, 0.9]} : tensor<1x8xf32>
    %1 = nn.slice %0 {offsets = …} : tensor<1x8xf32> -> tensor<1x4xf32>
    calib.observe %1 {name = "gate", range = [0.0, 5.0e-4]} : tensor<1x4xf32>
    // becomes
    %0 = nn.slice %x {offsets = …} : tensor<1x8xf32> -> tensor<1x4xf32>
    %1 = nn.sigmoid %0 : tensor<1x4xf32> -> tensor<1x4xf32>
    calib.observe %1 {name = "gate", range = [0.0, 5.0e-4]} : tensor<1x4xf32>
    ```
    """

    name = "separate-slices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        separate_slices(op, config_of(op).op_config(), target_of(ctx))


def separate_slices(module: ModuleOp, op_config: OpConfig, target: Target) -> None:
    """Gives slices of functions' results scales of their own where the functions' fixed scales do not suit them.

    Args:
        module: With observers; changed in place.
        op_config: The options in effect. A function stays where it is if its parameters are Glow's, or if the policy
            gives it a range or parameters.
        target: The target that the network is compiled for. A function that stays float on it stays where it is.
    """
    for function in defined_functions(module):
        _separate(function.body.block, OpConfigs(function.body.block, op_config, target))


def _separate(block: Block, op_configs: OpConfigs) -> None:
    """Separates slices of functions' results in a block; each slice of a slice is judged by its own range."""
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    for op in [o for o in block.ops if isinstance(o, SliceOp)]:
        source = sliced_function(op)
        observer = observers.get(op.y)
        if source is None or observer is None or observers.get(source.y) is None:
            continue
        if observer.observation is not None and not _suits(source, observer.observation.bounds, op_configs):
            _move_behind(source, op, observers)
        else:
            Rewriter.erase_op(observers.pop(op.y))


def sliced_function(op: SliceOp) -> FunctionOp | None:
    """The elementwise function with a fixed scale whose result a slice reads, directly or moved; None without such."""
    source = op.operands[0].owner
    while isinstance(source, MOVED):
        source = source.operands[0].owner
    if not isinstance(source, FunctionOp) or not is_float(source.y):
        return None
    return source if source.get_trait(FixedScale) is not None else None


def _suits(function: FunctionOp, bounds: tuple[float, float], op_configs: OpConfigs) -> bool:
    """Whether the scale of a function's result suits values in a range, or the function must not move at all."""
    op_config = op_configs.of(function)
    stated = op_config.glow_exact or op_config.range is not None or op_config.parameters is not None
    if stated or op_configs.why_float(function) is not None:
        return True
    return all(rule.suits(*bounds, *op_config.format) for rule in function.get_traits_of_type(FixedScale))


def _move_behind(function: FunctionOp, end: SliceOp, observers: dict[SSAValue, ObserveOp]) -> None:
    """Replaces a slice of a function's result by the function of the slice of its argument."""
    chain: list[MovementOp] = [end, *_movements_between(function, end)]
    value: SSAValue = function.x
    for movement in reversed(chain):
        moved = type(movement).make([value], movement.properties)
        Rewriter.insert_op(moved, InsertPoint.before(end))
        value = moved.y
    new = type(function).make([value], function.properties, attributes=restated(function))
    new.y.name_hint = end.y.name_hint
    Rewriter.insert_op(new, InsertPoint.before(end))
    observers[new.y] = observers.pop(end.y)
    Rewriter.replace_op(end, [], [new.y])
    for op in (*chain[1:], function):
        _erase_unread(op, observers)
    whole, part = names_of(function), names_of(end)
    inside = [part.data.inside] if function.parent else [whole.data.inside, *whole.tensors, part.data.inside]
    set_names(new.y, NameAttr.of([whole.nodes, part.nodes], part.tensors, inside))


def _movements_between(function: FunctionOp, end: SliceOp) -> Iterator[MovementOp]:
    """The data movement between a function and a slice of its result, the last operation first."""
    op = end.operands[0].owner
    while isinstance(op, MovementOp):
        yield op
        op = op.operands[0].owner


def _erase_unread(op: Operation, observers: dict[SSAValue, ObserveOp]) -> None:
    """Erases an operation, with its observer, if nothing else reads its result."""
    (result,) = op.results
    if any(use.operation is not observers.get(result) for use in result.uses):
        return
    if result in observers:
        Rewriter.erase_op(observers.pop(result))
    Rewriter.erase_op(op)
