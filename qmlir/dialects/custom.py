"""`custom.call`: an operator of a model file that the running program defines (ir/own_operators.py).

An operator in C has the function's name and the numbers that the function takes, so that an object file can call it.

%y = custom.call "my.domain" "Swirl" (%x) {attributes = {strength = 2.0 : f32}} : (tensor<4xf32>) -> tensor<4xf32>
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr, TensorType, f64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.native import is_identifier
from qmlir.ir.own_operators import OwnOperator, required_operator
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr


@irdl_op_definition
class CustomOp(QuantizableOp):
    """The results of an operator that the running program defines, on plain tensors.

    domain      the operator's domain
    operator    its name
    attributes  its attributes, by name
    symbol      the name of the C function that computes it; without one it is a function in Python
    numbers     the attributes that the C function takes, f64, in its order

    (C1) no operand or result is quantized
    (C2) the symbol is a name in C; numbers are there if it is
    """

    name = "custom.call"
    WHY_FLOAT: ClassVar[str] = "it is an operator that the program defines, on floats"

    inputs = var_operand_def(TensorType)
    domain = prop_def(StringAttr)
    operator = prop_def(StringAttr)
    given = prop_def(DictionaryAttr, prop_name="attributes")
    symbol = opt_prop_def(StringAttr)
    numbers = opt_prop_def(ArrayAttr[FloatAttr])
    outputs = var_result_def(TensorType)

    assembly_format = "$domain $operator `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    @staticmethod
    def of(
        own: OwnOperator, inputs: Sequence[SSAValue], attributes: Mapping[str, Attribute], types: Sequence[Attribute]
    ) -> "CustomOp":
        """Builds the operation.

        Raises:
            QmlirError: The C function of the operator does not take an attribute.
        """
        properties: dict[str, Attribute] = {
            "domain": StringAttr(own.domain), "operator": StringAttr(own.name),
            "attributes": DictionaryAttr(attributes),
        }  # fmt: skip
        if own.native is not None:
            numbers = own.native.numbers(attribute_values(attributes), own.called)
            properties["symbol"] = StringAttr(own.native.symbol)
            properties["numbers"] = ArrayAttr(FloatAttr(number, f64) for number in numbers)
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
        if (self.symbol is None) != (self.numbers is None):  # C2
            raise VerifyException(f"'{self.name}' has a symbol and numbers, or neither")
        if self.symbol is not None and not is_identifier(self.symbol.data):  # C2
            raise VerifyException(f"'{self.name}' needs a symbol that is a name in C, got \"{self.symbol.data}\"")

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
