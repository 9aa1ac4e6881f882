"""What all exporters share: a table of the operations that a format has a form of, and the walk over a function.

    exports: Forms[Values] = Forms()

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A form reads its operands from `values`, which is the format's own, and says there what holds each result.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.errors import LoweringError
from qmlir.rewriting import node_name

V = TypeVar("V")
F = TypeVar("F", bound=Callable[[Any, Any], None])


class NoForm(Exception):
    """Something that a format cannot say: a sentence without its subject, and what to do."""

    def __init__(self, need: str, got: str, remedy: str):
        super().__init__(need)
        self.need, self.got, self.remedy = need, got, remedy


class Forms(Generic[V]):
    """A table: operation class → what writes one of them.

    entries   its lines
    """

    def __init__(self) -> None:
        self.entries: dict[type[Operation], Callable[[Any, V], None]] = {}

    def __call__(self, *operations: type[Operation]) -> Callable[[F], F]:
        """Enters a function into the table."""

        def enter(function: F) -> F:
            for operation in operations:
                assert operation not in self.entries, f"{operation.name} has two forms"
                self.entries[operation] = function
            return function

        return enter

    def walk(self, function: func.FuncOp, values: V, enter: Callable[[str], None]) -> Sequence[SSAValue]:
        """Writes the operations of a function in program order.

        Args:
            function: On the nn level.
            values: What forms read and write.
            enter: Told the name of each operation before it is written.

        Returns:
            What the function returns.

        Raises:
            LoweringError: An operation or a type has no form.
        """
        for op in function.body.block.ops:
            enter(node_name(op))
            if isinstance(op, func.ReturnOp):
                return op.operands
            with refusing(op):
                self._write(op, values)
        raise LoweringError("func.func", function.sym_name.data, "must end with func.return")

    def _write(self, op: Operation, values: V) -> None:
        if isinstance(op, ObserveOp):
            return
        if (form := self.entries.get(type(op))) is None:
            raise NoForm("must be one of nn or a cast to or from quantized types", op.name, "export before nn-to-qint")
        form(op, values)


@contextmanager
def refusing(op: Operation) -> Generator[None]:
    """Says of what has no form which operation it is.

    Raises:
        LoweringError: The block met something without a form.
    """
    try:
        yield
    except NoForm as why:
        raise LoweringError(op.name, node_name(op), why.need, got=why.got, remedy=why.remedy) from None
