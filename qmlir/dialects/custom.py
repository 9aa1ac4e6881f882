"""`custom.call`: an operator of a model file that the running program defines (ir/own_operators.py).

%y = custom.call "my.domain" "Swirl" (%x) {attributes = {strength = 2.0 : f32}} : (tensor<4xf32>) -> tensor<4xf32>
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.own_operators import required_operator
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr


@irdl_op_definition
class CustomOp(QuantizableOp):
    """The results of an operator that the running program defines, on plain tensors.

    domain      the operator's domain
    operator    its name
    attributes  its attributes, by name

    (C1) no operand or result is quantized
    """

    name = "custom.call"
    WHY_FLOAT: ClassVar[str] = "it is an operator that the program defines, on floats"

    inputs = var_operand_def(TensorType)
    domain = prop_def(StringAttr)
    operator = prop_def(StringAttr)
    given = prop_def(DictionaryAttr, prop_name="attributes")
    outputs = var_result_def(TensorType)

    assembly_format = "$domain $operator `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    @staticmethod
    def of(
        domain: str, operator: str, inputs: Sequence[SSAValue], attributes: Mapping[str, Attribute],
        types: Sequence[Attribute],
    ) -> "CustomOp":  # fmt: skip
        """Builds the operation."""
        properties = {
            "domain": StringAttr(domain), "operator": StringAttr(operator), "attributes": DictionaryAttr(attributes),
        }  # fmt: skip
        return CustomOp(operands=[inputs], result_types=[types], properties=properties)

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(y) for y in self.outputs]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(y) for y in self.outputs]

    def verify_(self) -> None:
        super().verify_()
        for value in (*self.operands, *self.results):
            if isinstance(element_of(value), UniformType):  # C1
                raise VerifyException(f"'{self.name}' takes plain tensors, got {element_of(value)}")

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        own = required_operator(self.domain.data, self.operator.data)
        results = [(shape_of(y), dtype_of(element_of(y))) for y in self.outputs]
        return own.compute(inputs, attribute_values(self.given.data), results)


def attribute_values(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """Returns attributes as the program's function takes them."""
    return {name: _python_value(value) for name, value in attributes.items()}


def _python_value(value: Attribute) -> Any:
    match value:
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case ArrayAttr():
            return tuple(_python_value(each) for each in value.data)
        case WeightsAttr():
            return value.array
        case _:
            return str(value)


CUSTOM = Dialect("custom", [CustomOp])
