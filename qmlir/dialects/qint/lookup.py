"""Any function of one narrow integer, as a table."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import Array, Shape, element_of, shape_of
from qmlir.dialects.qint.base import QIntOp
from qmlir.dialects.weights import WeightsAttr


@irdl_op_definition
class LookupOp(QIntOp):
    """y[i] = table[x[i] + 128].

    (L1) x is i8 and the table has 256 entries of the result's type
    """

    name = "qint.lookup"
    x = operand_def(TensorType)
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.table.array[inputs[0].astype(np.int64) + 128],)

    def verify_(self) -> None:
        if element_of(self.x) != i8 or self.table.array.shape != (256,):  # L1
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 entries, got {element_of(self.x)} and {self.table.type}"
            )
        super().verify_()
