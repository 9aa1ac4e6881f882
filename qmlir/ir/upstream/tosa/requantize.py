"""`tosa.rescale`, TOSA's requantization: an integer times a multiplier and a power of two."""

from xdsl.dialects.builtin import BoolAttr, IntegerType, i8, i16, i32
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, is_integer, sizes

i48 = IntegerType(48)


@irdl_op_definition
class RescaleOp(TosaOp):
    """Requantizes: y = saturate((((x − input_zp) · multiplier + 2^(shift − 1)) >> shift) + output_zp).

    The rounding mode DOUBLE_ROUND rounds the high half of the product first, which matters for shifts above 31. With
    INEXACT_ROUND an implementation may choose the rounding. The shift lies in [2, 62], and |x − input_zp| is below
    2^(shift − 1).

    (C1) input and output are integers of the same shape; an i48 is not scaled by 32-bit multipliers
    (C2) multipliers are i32 with scale32, else i16; shifts are i8; there is one multiplier and one shift, or, with
         per_channel, one of each for each element of the last dimension
    (C3) each zero point has one element, of the element type of its input or output, and is 0 unless that type is an
         8-bit or an unsigned 16-bit integer
    (C4) DOUBLE_ROUND needs scale32
    (C5) input and output are not both unsigned, and an i32 or i48 is never unsigned
    """

    name = "tosa.rescale"
    input = operand_def(TENSOR)
    multiplier = operand_def(TENSOR)
    shift = operand_def(TENSOR)
    input_zp = operand_def(TENSOR)
    output_zp = operand_def(TENSOR)
    scale32 = prop_def(BoolAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    per_channel = prop_def(BoolAttr)
    input_unsigned = prop_def(BoolAttr)
    output_unsigned = prop_def(BoolAttr)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        kinds = element(self.input), element(self.output)
        wide = bool(self.scale32)
        if not all(map(is_integer, kinds)) or (wide and kinds[0] == i48):  # C1
            allowed = "integers" if not wide or kinds[0] != i48 else "integers of at most 32 bits with scale32"
            self.fail(f"needs {allowed} to scale, got {kinds[0]} to {kinds[1]}")
        shape = sizes(self.input)
        if shape is not None:
            self.check_result(shape)  # C1
        self.check_element(i32 if wide else i16, multiplier=self.multiplier)  # C2
        self.check_element(i8, shift=self.shift)  # C2
        channels = (1,) if not bool(self.per_channel) else shape[-1:] if shape is not None else None
        for name, value in (("multiplier", self.multiplier), ("shift", self.shift)):
            if channels is not None and not fits(sizes(value), channels):  # C2
                self.fail(f"needs a {name} of {channels[0]} elements, got {value.type}")
        self._check_zero_points()  # C3
        if self.rounding_mode.data == RoundingMode.DOUBLE_ROUND and not wide:  # C4
            self.fail("needs scale32 for rounding_mode DOUBLE_ROUND")
        unsigned = [k for k, u in zip(kinds, (self.input_unsigned, self.output_unsigned), strict=True) if bool(u)]
        if len(unsigned) == 2 or any(k in (i32, i48) for k in unsigned):  # C5
            self.fail(f"needs at most one of input and output unsigned, of 8 or 16 bits, got {kinds[0]} to {kinds[1]}")

    def _check_zero_points(self) -> None:
        for name, value, data, unsigned in (
            ("input_zp", self.input_zp, self.input, self.input_unsigned),
            ("output_zp", self.output_zp, self.output, self.output_unsigned),
        ):
            if element(data) == i16 and bool(unsigned):  # TOSA allows the zero points 0 and 32768
                self.check_element(i16, **{name: value})
            else:
                self.check_zero_point(name, value, data)
