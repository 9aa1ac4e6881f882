"""`narrow-attention`: words that attention multiplies get as many digits as sums of 32 bits hold.

Where rows have scales of their own (`activations=dynamic`), tensors between layers have 16 bits, and sums of products
of two of them do not fit 32 bits. But layers behind read 8 bits of a row, beside which the last digits of queries, keys
and values are nothing. So both sides of a product of two computed tensors are stored in the integers from −n to n,

    K · n² < 2^31, for sums of K products

in larger steps: 14 bits for heads of 32 channels, 13 for a row of 128 weights of a softmax. The product then adds in 32
bits, with half as many instructions on processors whose products of words do so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i16
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.dialects.nn import AttendOp, MatMulOp
from qmlir.dialects.nn.quantizable import ACCUMULATOR_MAX, QuantizableOp, data_operands
from qmlir.dialects.quant.rules import FreeScale, keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import POLICY
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.signature import defined_functions
from qmlir.ir.types import with_element
from qmlir.policies.legality import require_integer_form, target_of
from qmlir.settings.quant_config import config_of, op_config_of, settings_of
from qmlir.transforms.quantize.ranges.row_scales import is_dynamic, widens_words

LEAST = (1 << 11) - 1
"""The least bound of the integers: 12 bits have 24 dB more than the 8 bits of the rows behind. Longer sums keep 64."""


@dataclass(frozen=True)
class NarrowAttentionPass(ModulePass):
    """Stores the operands of matrix products of computed words in as many digits as sums of 32 bits hold.

    ```mlir
    %a = nn.add %x, %b : … -> tensor<8x32x!quant.uniform<i16:f32, 0.001>>
    %p = nn.matmul %a, %c : …
    // becomes, by activations=dynamic
    %a = nn.add %x, %b : … -> tensor<8x32x!quant.uniform<i16<-8191:8191>:f32, 0.0040003661997616291>>
    %p = nn.matmul %a, %c : …
    ```
    """

    name = "narrow-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default, target = config_of(op).op_config(), target_of(ctx)
        if not widens_words(op, target):
            return
        for function in defined_functions(op):
            for product in [o for o in function.body.block.ops if isinstance(o, MatMulOp | AttendOp)]:
                if is_dynamic(op_config_of(product, default)):
                    _narrow(product, target)


def _narrow(product: MatMulOp | AttendOp, target: Target) -> None:
    """Narrows what a product reads, unless its sums fit, or something else reads it, too."""
    sides = [product.v] if isinstance(product, AttendOp) else list(product.operands)
    terms = shape_of(product.operands[0])[-1]
    most = isqrt(ACCUMULATOR_MAX // max(terms, 1))
    ways = [_way(side) for side in sides]
    if most < LEAST or not all(ways) or product.fits_32_bits():
        return
    if any(_states_precision(op) for op in (product, *(way[-1].owner for way in ways))):
        return
    before = [[value.type for value in way] for way in ways]
    made = [[_with_type(v, with_element(v.type, _narrowed(way[0], most))) for v in way] for way in ways]
    try:
        for op in (*(way[-1].owner for way in made), product):
            assert isinstance(op, Operation)
            require_integer_form(op, target)
    except UnsupportedError:
        for way, types in zip(made, before, strict=True):
            for value, type in zip(way, types, strict=True):
                _with_type(value, type)


def _states_precision(op: Operation | Block) -> bool:
    """Whether a rule asks for the words of an operation."""
    policy = POLICY.of(op) if isinstance(op, Operation) else None
    return policy is not None and "precision" in settings_of(policy)


def _way(value: SSAValue) -> Sequence[SSAValue]:
    """A tensor of words, and those that it is moved from, what computes it last; empty if others read one of them."""
    found = [value]
    while isinstance(value.owner, Operation) and keeps_scale(value.owner):
        if len(data_operands(value.owner)) != 1:
            return []
        value = value.owner.operands[0]
        found.append(value)
    element, op = element_of(value), value.owner
    words = isinstance(element, UniformType) and element == UniformType.per_tensor(i16, element.scales[0])
    computed = isinstance(op, QuantizableOp) and op.has_trait(FreeScale) and len(op.results) == 1
    return found if words and computed and all(len(list(v.uses)) == 1 for v in found) else []


def _narrowed(value: SSAValue, most: int) -> UniformType:
    """The type of a tensor of words with integers from −most to most, which reaches as far as its own."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    scale = float(np.float32(element.scale * element.storage_max / most))
    return UniformType.per_tensor(i16, scale, 0, -most, most, element.expressed)


def _with_type(value: SSAValue, type: object) -> SSAValue:
    hint = value.name_hint
    made = Rewriter.replace_value_with_new_type(value, type)  # type: ignore[arg-type]
    made.name_hint = hint
    return made
