"""TOSA's resize: interpolation of images at places that are rational numbers."""

from xdsl.dialects.builtin import IntegerType, StringAttr, i8, i16, i32
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from qmlir.ir.upstream.tosa.base import SHAPE, TENSOR, TosaOp, constant_shape, element, fits, known, sizes
from qmlir.ir.upstream.tosa.resize_mode import ResizeMode, ResizeModeAttr

SUMS: dict[Attribute, Attribute] = {i8: i32, i16: IntegerType(48)}
"""Element type of integer data → element type of their weighted sums."""


@irdl_op_definition
class ResizeOp(TosaOp):
    """Interpolates an image [N,H,W,C] at y = (oy · scale_d + offset) / scale_n, and at x likewise.

    `scale` is (y_n, y_d, x_n, x_d), `offset` and `border` are (y, x). With BILINEAR, weights of integers are multiples
    of 1 / scale_n, and the result is the sum times y_n · x_n.

    (Z1) input and result have rank 4 and the same numbers of images and channels
    (Z2) the result has the input's element type; for BILINEAR, i32 for i8 and i48 for i16
    (Z3) scale has four sizes of at least 1, offset and border have two
    (Z4) the result has ((H − 1) · y_n − offset + border) / y_d + 1 rows, a whole number, and so for columns
    """

    name = "tosa.resize"
    input = operand_def(TENSOR)
    scale = operand_def(SHAPE)
    offset = operand_def(SHAPE)
    border = operand_def(SHAPE)
    mode = prop_def(ResizeModeAttr | StringAttr)
    output = result_def(TENSOR)

    @property
    def is_bilinear(self) -> bool:
        """Whether the mode is BILINEAR; the first versions of the dialect hold it as a string."""
        return self.mode.data == ResizeMode.BILINEAR

    def verify_(self) -> None:
        if self.mode.data not in list(ResizeMode):
            self.fail(f"needs a mode of {' or '.join(ResizeMode)}, got {self.mode.data}")
        self.check_rank(4, input=self.input, result=self.output)  # Z1
        kind = element(self.input)
        self.check_element(SUMS.get(kind, kind) if self.is_bilinear else kind, result=self.output)  # Z2
        self.check_shape_rank(4, scale=self.scale)  # Z3
        self.check_shape_rank(2, offset=self.offset, border=self.border)  # Z3
        image, result = sizes(self.input), sizes(self.output)
        if image is None or result is None:
            return
        if not fits((result[0], result[3]), (image[0], image[3])):  # Z1
            self.fail(f"must keep images and channels, got {self.output.type} from {self.input.type}")
        scale, offset, border = (constant_shape(v) for v in (self.scale, self.offset, self.border))
        if scale is None or offset is None or border is None:
            return
        if min(scale) < 1:  # Z3
            self.fail(f"needs a scale of numbers of at least 1, got {list(scale)}")
        for i, size in enumerate(image[1:3]):
            reach, step = (size - 1) * scale[2 * i] - offset[i] + border[i], scale[2 * i + 1]
            if known(size) and (reach % step or not fits((result[i + 1],), (reach // step + 1,))):  # Z4
                self.fail(f"must yield {reach} / {step} + 1 elements along dimension {i + 1}, got {self.output.type}")
