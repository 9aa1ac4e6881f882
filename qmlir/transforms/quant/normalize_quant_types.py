"""`normalize-quant-types`: replaces sub-channel types by simpler types that mean the same.

Enters: any module with `!quant.uniform<…:{axis:size, …}, {…}>` as element types of tensors. Leaves: the same
operations on per-tensor types where there is one block, and on per-axis types where each index of a single axis is a
block. The other sub-channel types stay.
"""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.dialects.quant.foreign import SubChannelType
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.types import element_type, with_element


class NormalizeQuantTypesPass(ModulePass):
    """Turns sub-channel types with one block, or with one block for each index of one axis, into simpler types.

    ```mlir
    tensor<?x?x!quant.uniform<i8:f32:{0:1, 1:4}, {{2.0:127}}>>
    tensor<?x?x!quant.uniform<i8:f32:{0:1, 1:4}, {{2.0:127}, {3.0:127}}>>
    // become
    tensor<?x?x!quant.uniform<i8:f32, 2.0:127>>
    tensor<?x?x!quant.uniform<i8:f32:0, {2.0:127,3.0:127}>>
    ```

    The types of all block arguments, operation results and functions change; attributes stay. If the blocks of the
    single axis are longer than 1, upstream's pass gives each block's scale to a single index. Here the type stays
    sub-channel, because a per-axis type would mean something else.
    """

    name = "normalize-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for operation in list(op.walk()):
            if isinstance(operation, func.FuncOp):
                type = operation.function_type
                operation.function_type = FunctionType.from_lists(_all(type.inputs.data), _all(type.outputs.data))
            for value in tuple(operation.results):
                _normalize(value)
            for region in operation.regions:
                for argument in [a for block in region.blocks for a in block.args]:
                    _normalize(argument)


def _normalize(value: SSAValue) -> None:
    if (type := _simplest(value.type)) != value.type:
        hint = value.name_hint
        Rewriter.replace_value_with_new_type(value, type).name_hint = hint


def _all(types: Sequence[Attribute]) -> list[Attribute]:
    return [_simplest(t) for t in types]


def _simplest(type: Attribute) -> Attribute:
    """The tensor type with the simplest elements that mean the same; types other than tensors stay as they are."""
    element = element_type(type)
    if element is type or not isinstance(element, SubChannelType):
        return type
    return with_element(type, _simpler(element))


def _simpler(blocks: SubChannelType) -> SubChannelType | UniformType:
    bounds = (blocks.storage_min, blocks.storage_max)
    scales, zero_points = blocks.scales, blocks.zero_points
    if len(scales) == 1:
        return UniformType.per_tensor(blocks.storage, scales[0], zero_points[0], *bounds, blocks.expressed)
    axes = [axis for axis, count in enumerate(blocks.shape) if count != 1]
    if len(axes) == 1 and dict(blocks.block_sizes).get(axes[0]) == 1:
        return UniformType.per_axis(blocks.storage, axes[0], scales, zero_points, *bounds, blocks.expressed)
    return blocks
