"""A Caffe2 operator as its converter sees it: a frontend node whose arguments may state the type of its output.

An integer operator of Caffe2 (`Int8…`) stores its result as uint8, with the scale `Y_scale` and the zero point
`Y_zero_point`. Both are arguments of the operator, so the type of its result is known before it is converted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.functions import RequantizeOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Operand, Properties
from qmlir.frontends.caffe2.reader import UINT8
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.quantized import QuantizedNode
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.rewriting import tensor_name

SCALE, ZERO_POINT = "Y_scale", "Y_zero_point"

Order = Literal["NCHW", "NHWC"]
"""Layouts of images: channels before or behind the spatial dimensions, however many these are."""


UNIMPORTANT = frozenset(
    """allow_broadcast_fastpath average_lookup_length cudnn_exhaustive_search deterministic_mode engine
    exhaustive_search init_params is_gradient_op length1 net_name op_version order shared_buffer
    shared_ws_nbytes_limit use_cudnn ws_nbytes_limit""".split()
)
"""Arguments that the importer ignores: they choose how to compute.

Nets give the `order` of images to sums and functions of elements, too, which compute the same in every order. The
converters of operators that compute by the order take it.
"""


@dataclass
class Caffe2Node(QuantizedNode):
    """A node with the arguments of its operator.

    arguments  the arguments by name
    lookup     the tensor of a name; None if no operator before this one defines it
    given      the names of the net's inputs, in the order of the function's arguments
    """

    ATTRIBUTE: ClassVar[str] = "argument"

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lookup: Callable[[str], Value | None] = lambda name: None
    given: Sequence[str] = ()
    stated: UniformType | None = None

    # ------------------------------------------------------------------------------------------------------------
    # The type of the result

    def ignores(self, name: str, value: Any) -> bool:
        return name in UNIMPORTANT or (name in (SCALE, ZERO_POINT) and self.kind.startswith("Int8"))

    def output_type(self, output: int = 0) -> UniformType | None:
        return self.stated if output == 0 else None

    def state(self, storage: IntegerType = UINT8) -> UniformType | None:
        """Reads the type of the result from the arguments; None if they do not state one.

        Raises:
            NodeError: The scale is not above 0, the zero point is not one of the storage type, or one is missing.
        """
        scale, point = self.arguments.get(SCALE), self.arguments.get(ZERO_POINT)
        if scale is None and point is None:
            return None
        if not isinstance(scale, int | float) or not isinstance(point, int) or not np.isfinite(scale) or scale <= 0:
            raise self.error(f"it needs a {SCALE} above 0 and a whole {ZERO_POINT}", f"{scale} and {point}")
        bits = storage.width.data
        low, high = (0, 255) if storage == UINT8 else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if not low <= point <= high:
            raise self.error(f"its {ZERO_POINT} must lie in [{low}, {high}]", str(point))
        try:
            self.stated = UniformType.per_tensor(storage, float(scale), point)
        except VerifyException as error:
            raise self.error(f"its {SCALE} must be that of a type", " ".join(str(error).split())) from None
        return self.stated

    def stated_type(self) -> UniformType:
        """Returns the type of the result, which the arguments must state."""
        if self.stated is None:
            raise self.error(f"it needs its arguments {SCALE} and {ZERO_POINT}", "none")
        return self.stated

    def on_type(self, x: Value, type: UniformType) -> SSAValue:
        """Returns a quantized value requantized to a type; unchanged if it has that type."""
        self.require_quantized(x)
        value = self.quantized(x)
        return value if element_of(value) == type else self.insert(RequantizeOp, [value], element=type)

    def require_quantized(self, *inputs: Value) -> None:
        """Checks the inputs of an integer operator.

        Raises:
            UnsupportedError: The shape of an input is not known.
            NodeError: An input holds plain numbers.
        """
        for x in inputs:
            self.shape(x)
            if not self.is_quantized(x):
                name, remedy = self._source(x)
                raise self.error(f'its input "{name}" must be quantized', self.element(x), remedy)

    def _source(self, x: Value) -> tuple[str, str]:
        """Returns the name of plain numbers that an integer operator reads, and the remedy.

        For an input of the net, moved or not, the remedy is the option that states its type.
        """
        name, remedy = x.name if isinstance(x, Constant) else tensor_name(x), "put an Int8Quantize in front of it"
        while isinstance(x, OpResult) and isinstance(x.op, MovementOp):
            x = x.op.operands[0]
        if isinstance(x, BlockArgument) and x.index < len(self.given):
            name = self.given[x.index]
            example = f"{name}={''.join(f'{size}x' for size in shape_of(x))}!quant.uniform<u8:f32, 0.5:128>"
            remedy = f"state its scale and zero point with its shape: --shape '{example}'"
        return name, remedy

    def also(
        self, op_type: type[TensorOp], operands: Sequence[Operand], properties: Properties | None = None, *, output: int
    ) -> SSAValue:
        """Adds an operation that computes another output than the first, which is named if that output is used."""
        if output < len(self.outputs) and self.outputs[output]:
            return self.compute(op_type, operands, properties, output=output)
        return self.insert(op_type, operands, properties)

    # ------------------------------------------------------------------------------------------------------------
    # Layouts of images

    def channels_last(self, x: Value, order: Order) -> SSAValue:
        """Returns an image [N, …, C], transposed if its order is NCHW."""
        rank = self.rank(x)
        if order == "NHWC" or rank < 3:
            return self.quantized(x)
        return self.permuted(self.movable(x), (0, *range(2, rank), 1))

    def in_order(self, y: Value, order: Order) -> Value:
        """Returns an image [N, …, C] in an order, transposed if that is NCHW."""
        rank = self.rank(y)
        return y if order == "NHWC" or rank < 3 else self.permuted(y, (0, rank - 1, *range(1, rank - 1)))

    def channel(self, order: Order) -> int:
        """Returns the axis of the channels in images of an order, counted from the front or the end."""
        return 1 if order == "NCHW" else -1

    def permuted(self, x: Value, permutation: Sequence[int]) -> SSAValue:
        """The input with its dimensions permuted; a constant that is stored as integers enters the IR as integers."""
        if isinstance(x, Constant):
            return self.quantized(self.moved(x, permutation))
        return super().permuted(x, permutation)

    def real(self, x: Value) -> Value:
        """Returns an input of a float operator.

        Raises:
            UnsupportedError: The input is quantized: only integer operators take such tensors in Caffe2.
        """
        if self.is_quantized(x):
            raise UnsupportedError("it computes on floats, and its input is quantized")
        return x
