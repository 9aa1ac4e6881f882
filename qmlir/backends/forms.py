"""The code that all exporters share: a table of forms, and the walk that writes a function with them.

    exports: Forms[Values] = Forms()

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A form is a function that writes an operation of one class in a file format, as the example shows. It reads the tensors
of the operands from `values`, an object of the format's own class, and records there which tensor holds each result.
Each file of forms has a table, and the exporter's entry joins these tables. An operation without a form is written as
the operations that it is composed of, if it is composed.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import ON_FLOATS
from qmlir.ir.interfaces import Array, ComposedOp, element_of, parts_of
from qmlir.ir.rewriting import node_name

Bounds = tuple[float | None, float | None]
"""The least and the greatest value; None means unbounded."""


class Held(Protocol):
    """What the walk itself asks of a format's values."""

    def same(self, value: SSAValue, source: SSAValue) -> None:
        """Records that what stores one value stores another one too."""
        ...


V = TypeVar("V", bound=Held)
F = TypeVar("F", bound=Callable[[Any, Any], None])


class Forms(Generic[V]):
    """A table that maps each operation class to its form, the function that writes such an operation.

    entries   operation class → form
    """

    def __init__(self) -> None:
        self.entries: dict[type[Operation], Callable[[Any, V], None]] = {}

    def __call__(self, *operations: type[Operation]) -> Callable[[F], F]:
        """Returns a decorator that enters a function into the table as the form of the operation classes."""

        def enter(function: F) -> F:
            for operation in operations:
                assert operation not in self.entries, f"{operation.name} has two forms"
                self.entries[operation] = function
            return function

        return enter

    @staticmethod
    def of(*families: "Forms[V]") -> "Forms[V]":
        """Returns a table with the forms of all families, no two of which have a form of one operation."""
        table: Forms[V] = Forms()
        for family in families:
            for operation, form in family.entries.items():
                table(operation)(form)
        return table

    def replaced(self, others: Mapping[type[Operation], Callable[[Any, V], None]]) -> "Forms[V]":
        """Returns the table with other forms in the place of its own, or in addition to them."""
        table: Forms[V] = Forms()
        table.entries = {**self.entries, **others}
        return table

    def walk(self, function: func.FuncOp, values: V, enter: Callable[[str], None]) -> Sequence[SSAValue]:
        """Writes the operations of a function in program order, up to its return.

        Args:
            function: The function; its operations are those that the table has forms for.
            values: The object in which forms look up operands and record results.
            enter: Called with the name of each operation before the operation is written.

        Returns:
            The values that the function returns.

        Raises:
            UnsupportedError: An operation or a type has no form.
        """
        for op in function.body.block.ops:
            enter(node_name(op))
            if isinstance(op, func.ReturnOp):
                return op.operands
            with refusing(op):
                self._write(op, values)
        raise UnsupportedError.at("func.func", function.sym_name.data, "must end with func.return")

    def _write(self, op: Operation, values: V) -> None:
        if isinstance(op, ObserveOp):
            return
        form = self.entries.get(type(op))
        if form is None and isinstance(op, ComposedOp):
            with parts_of(op) as parts:
                for part in parts:
                    self._write(part, values)
                values.same(op.results[0], parts[-1].results[0])
            return
        if form is None:
            raise UnsupportedError(
                "must be one of nn or a cast to or from quantized types", op.name, "export before nn-to-qint"
            )
        form(op, values)


@contextmanager
def refusing(op: Operation) -> Generator[None]:
    """Names the operation in the error that its form raises.

    Raises:
        UnsupportedError: The block raised it; here it names the operation.
    """
    try:
        yield
    except UnsupportedError as why:
        raise why.about(op.name, node_name(op)) from None


# ---------------------------------------------------------------------------------------------------------------
# What forms of several formats ask of operations and values.


def constant(value: SSAValue) -> Array | None:
    """Returns the array of a constant; None for a computed value."""
    return value.owner.value.array if isinstance(value.owner, nn.ConstantOp) else None


def fused_bounds(op: object) -> Bounds:
    """Returns the real bounds of an operation's fused clamp."""
    return op.bounds() if isinstance(op, Clamped) else (None, None)


def argument_bounds(op: Operation, operand: SSAValue) -> Bounds:
    """Returns the bounds to which the argument of a function must be clamped.

    They are the ends of the function's domain beyond which the operand's quantized type represents numbers. There are
    none if the operation is no function, or if the source model computes it on floats.
    """
    element = element_of(operand)
    if not isinstance(op, FunctionOp) or not isinstance(element, UniformType) or ON_FLOATS.on(op):
        return None, None
    return op.domain_bounds(element)


def require_uniform(op: QuantizeCastOp | DequantizeCastOp | StorageCastOp) -> None:
    """Raises UnsupportedError unless a cast's quantized type has scales per tensor or along one axis."""
    found = quantized_element(op.input.type) or quantized_element(op.result.type)
    if not isinstance(found, UniformType):
        got = str(op.quantized_type)
        raise UnsupportedError(
            "needs integers with one scale, or one for each index of one axis", got, "quantize per axis"
        )


class Names:
    """A set of names, each of which is given out once."""

    def __init__(self, taken: Sequence[str] = ()):
        self.taken = set(taken)

    def unique(self, wanted: str) -> str:
        """Returns the wanted name if it is free, else the first free of `name.1`, `name.2`, …."""
        name, n = wanted, 1
        while name in self.taken:
            name, n = f"{wanted}.{n}", n + 1
        self.taken.add(name)
        return name


def refuse_counted() -> NoReturn:
    """Refuses an operation whose results have as many elements as the data say: files have no form of its padding.

    Raises:
        UnsupportedError: Always.
    """
    need = "must have results whose sizes do not depend on the data"
    raise UnsupportedError(need, "a bound and a count", "end the network in front of it, by --outputs")
