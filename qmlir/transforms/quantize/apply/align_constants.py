"""`align-constants`: constants that are added to words have the scale of the sum, and so have the words.

Where rows have scales of their own (`activations=dynamic`), layers add their bias on words, behind the product with a
row's magnitude, and normalizations theirs behind their gain. Three tensors of three scales take two multiplications
for each sum. In one scale, a sum is an addition that saturates, and is rounded no more:

    y = x + b

The words lose the digits that the sum does not have, and the sum is as exact as before.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i16
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import AddOp, ConstantOp
from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.quant.rules import FreeScale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import restated
from qmlir.ir.facts import LEVELS
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.signature import defined_functions
from qmlir.ir.types import with_element
from qmlir.numerics import fixed_point
from qmlir.policies.legality import require_integer_form, target_of
from qmlir.settings.quant_config import config_of, op_config_of
from qmlir.transforms.quantize.ranges.row_scales import is_dynamic, widens_words


@dataclass(frozen=True)
class AlignConstantsPass(ModulePass):
    """Gives words and constants that are added the scale of their sum.

    ```mlir
    %p = nn.multiply_rows %s, %m : … -> tensor<8x4x!quant.uniform<i16:f32, 0.001>>
    %y = nn.add %p, %b : … -> tensor<8x4x!quant.uniform<i16:f32, 0.002>>
    // becomes, by activations=dynamic
    %p = nn.multiply_rows %s, %m : … -> tensor<8x4x!quant.uniform<i16:f32, 0.002>>
    %y = nn.add %p, %c : … -> tensor<8x4x!quant.uniform<i16:f32, 0.002>>   // %c: %b in steps of 0.002
    ```
    """

    name = "align-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default, target = config_of(op).op_config(), target_of(ctx)
        if not widens_words(op, target):
            return
        for function in defined_functions(op):
            for add in [o for o in function.body.block.ops if isinstance(o, AddOp)]:
                if is_dynamic(op_config_of(add, default)):
                    _align(add, target)


def _align(add: AddOp, target: Target) -> None:
    """Aligns a sum of words that nothing else reads and a constant, if the words are no coarser than their sum."""
    places = [i for i, v in enumerate(add.operands) if isinstance(v.owner, ConstantOp)]
    if len(places) != 1:
        return
    constant, x = (add.operands[i] for i in (places[0], 1 - places[0]))
    types, maker = [_of_words(v) for v in (x, constant, add.y)], x.owner
    if None in types or not isinstance(maker, QuantizableOp) or not maker.has_trait(FreeScale):
        return
    words, other, result = (t for t in types if t is not None)
    if len(list(x.uses)) > 1 or words.scale > result.scale:
        return
    element = UniformType.per_tensor(i16, result.scale, 0, expressed=result.expressed)
    if (stored := _stored(constant, other, element)) is None:
        return
    before, hint = x.type, x.name_hint
    made = Rewriter.replace_value_with_new_type(x, with_element(x.type, element))
    made.name_hint = hint
    try:
        require_integer_form(maker, target)
    except UnsupportedError:
        Rewriter.replace_value_with_new_type(made, before).name_hint = hint
        return
    _replace_constant(add, places[0], stored, element)


def _of_words(value: SSAValue) -> UniformType | None:
    """The type of a tensor of words with one scale and no zero point; None for another tensor."""
    element = element_of(value)
    plain = isinstance(element, UniformType) and element.storage == i16 and element.zero_points == (0,)
    return element if isinstance(element, UniformType) and plain and not element.is_per_axis else None


def _stored(constant: SSAValue, before: UniformType, element: UniformType) -> Array | None:
    """The integers of a constant in another scale; None if some number lies beyond them."""
    assert isinstance(constant.owner, ConstantOp)
    real = fixed_point.dequantize(constant.owner.value.array, np.array(before.scale), np.array(0))
    integers = np.rint(real.astype(np.float64) / element.scale)
    return None if np.abs(integers).max(initial=0) > element.storage_max else integers.astype(np.int16)


def _replace_constant(add: AddOp, place: int, stored: Array, element: UniformType) -> None:
    """Makes a sum read other integers; the constant that it read stays where others read it."""
    old = add.operands[place].owner
    assert isinstance(old, ConstantOp)
    new = ConstantOp(stored, TensorType(element, shape_of(old.y)), restated(old, but=LEVELS))
    new.y.name_hint = old.y.name_hint
    Rewriter.insert_op(new, InsertPoint.before(add))
    add.operands[place] = new.y
    if not old.y.uses:
        Rewriter.erase_op(old)
