"""Imports a Caffe2 net as a module with `func.func @main` on static tensors.

    arguments   the tensors that the net reads and neither it nor its init net makes, in the order that it declares
    results     the tensors that the net declares as results; without a declaration, those that no operator reads
    body        nn operations; operators that no result needs are skipped (walk.py)

A net does not state the shapes of its data. They are given beside it, or stand in the net's arguments where an
exporter for an accelerator wrote them (reader.py). Weights are operators of a second net, the init net, which runs
first.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import ParseError, VerifyException

from qmlir.errors import FileError, OptionError, QmlirError, UnsupportedError, near_misses
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.caffe2.reader import Net, Operator, read_net
from qmlir.frontends.caffe2.walk import Step, Walk, needed, unconverted
from qmlir.frontends.cut import WHOLE, Cut, listed
from qmlir.frontends.function import Builder, Constant, sized
from qmlir.ir.budget import BUDGET, Budget
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import Array
from qmlir.ir.upstream.source_parser import SourceParser, one_line
from qmlir.numerics import native

# ---------------------------------------------------------------------------------------------------------------
# Reads the type of an input as users give it: the text between the angle brackets of MLIR's tensor type.
#
# 1x3x224x224                                  float32, by default
# 8xi64                                        another element type
# 4x2x!quant.uniform<u8:f32, 0.5:128>          integers that stand for real numbers, as integer operators read them


_DIMENSIONS = re.compile(r"\d+(x\d+)*", re.ASCII)

LONGEST = 100_000
"""The most characters of a type."""


def tensor_type(name: str, text: str) -> TensorType[Attribute]:
    """Returns the type that a text gives an input.

    Raises:
        OptionError: The text is no type of a tensor with static dimensions; the error names the input.
    """
    written = f"{text}xf32" if _DIMENSIONS.fullmatch(text) else text
    try:
        if len(text) > LONGEST:
            raise ValueError("a text that is too long")
        whole = f"tensor<{written}>"
        parser = SourceParser(make_context(), whole, "shape")
        type: Attribute = parser.parse_type()
        if not isinstance(type, TensorType) or parser.pos < len(whole):
            raise ValueError("another type")
        found = cast(TensorType[Attribute], type)
        if min(found.get_shape(), default=0) < 0:
            raise ValueError("a dimension without a size")
        sized(found.get_shape())
    except (ParseError, VerifyException, ValueError, RecursionError, QmlirError) as error:
        got = error.need if isinstance(error, UnsupportedError) else one_line(error)
        raise OptionError(
            f"shape {name}", "must be dimensions with an element type behind them, such as 1x3x224x224 or 8xi64",
            got=f"{text}: {got}",
        ) from None  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------------------------
# The import


def load_caffe2(
    source: Path | str | bytes, weights: Path | str | bytes | None = None, *, shapes: Mapping[str, str] | None = None,
    constants: Mapping[str, Array] | None = None, fold_budget: int = BUDGET, text: bool = False, cut: Cut = WHOLE,
) -> ModuleOp:  # fmt: skip
    """Imports a Caffe2 net.

    Args:
        source: The path of the net's file, or the file's bytes.
        weights: The path of the init net's file, or the file's bytes; None if the net has no weights.
        shapes: The types of inputs by name, as `tensor_type` reads them; an input of the init net becomes an argument.
        constants: Values of inputs, by name; these inputs are no arguments.
        fold_budget: The most bytes that constants computed at import may take.
        text: Whether bytes are nets as text.
        cut: The tensors at which the network begins and ends; of several tensors of a name, the last.

    Returns:
        A module in the nn dialect. Operators that qmlir cannot import are `qmlir.opaque` in it; see `refuse_opaque`.

    Raises:
        FileError: A file is no Caffe2 net, or an input has no shape.
        NodeError: An operator lacks an input or an argument, or contradicts itself.
        OptionError: A shape or a constant is for a tensor that the net does not read, a shape cannot be read, or the
            net has no tensor that `cut` names.
    """
    net = read_net(source, text=text)
    init = None if weights is None else read_net(weights, text=text)
    types = {name: tensor_type(name, given) for name, given in (shapes or {}).items()}
    return _Import(net, init, types, constants or {}, Budget(fold_budget), cut).run()


class _Import:
    """One import: the operators that are needed, the function's arguments, and the walk that builds the function."""

    def __init__(
        self, net: Net, init: Net | None, types: Mapping[str, TensorType[Attribute]], constants: Mapping[str, Array],
        budget: Budget, cut: Cut,
    ):  # fmt: skip
        self.net, self.init = net, init
        made = () if init is None else init.operators
        cut.check(name for op in (*made, *net.operators) for name in (*op.inputs, *op.outputs))
        begins = frozenset(cut.inputs or ())
        # A shape or a value that is given takes the place of what the init net makes.
        chosen = {*types, *constants}
        kept = [op for op in made if not (op.outputs and set(op.outputs) <= chosen)]
        self.outputs = list(cut.outputs) if cut.outputs is not None else self._outputs(made, chosen)
        self.steps, outside = needed([*kept, *net.operators], self.outputs, begins)
        self._check_names({n: t for n, t in types.items() if n not in begins}, constants, made)
        self.types = {**net.types, **types}
        if cut.inputs is None:
            kept_types = set(types) if cut.outputs is None else set[str]()
            self.names = [n for n in self._order(outside | kept_types) if n not in constants]
        else:
            _check_versions(self.steps, net, begins)
            self.names = list(cut.inputs)
            cut.check_needed(outside, [n for n in self._order(outside) if n not in constants])
        self._check_shapes(self.names)
        self.builder = Builder.of(self.names, [self.types[n] for n in self.names], budget)
        self.walk = Walk(self.builder, net.file, given=self.names, taken=set(self.names))
        self.walk.values.update(zip(self.names, self.builder.block.args, strict=True))
        for name, array in constants.items():
            self.walk.values[name] = Constant(array.astype(native(array.dtype), copy=False), name)

    def run(self) -> ModuleOp:
        """Imports the operators and returns the module."""
        self.walk.run(self.steps)
        return self.builder.finish([self._result(n) for n in self.outputs], self.outputs)

    def _outputs(self, made: Sequence[Operator], given: set[str]) -> list[str]:
        """Returns the names of the results, which may be tensors with a shape that no operator makes.

        Raises:
            FileError: The net has none, or one that no operator makes.
        """
        read = {name for op in self.net.operators for name in op.inputs}
        found = list(self.net.outputs) or [
            name
            for name in dict.fromkeys(o for op in self.net.operators for o in op.outputs)
            if name and name not in read
        ]
        defined = {o for op in (*made, *self.net.operators) for o in op.outputs}
        known = defined | set(self.net.inputs) | read | given
        if not found:
            raise FileError(self.net.file, "must have results", got="none", remedy="save the net again")
        for name in found:
            if name not in known:
                raise FileError(
                    self.net.file, f'its result "{name}" must be made by an operator', got="none",
                    remedy=near_misses(name, known) or "save the net again",
                )  # fmt: skip
        return found

    def _order(self, names: set[str]) -> list[str]:
        """Returns names in the order in which the net declares them, and then reads them."""
        read = (name for op in self.net.operators for name in op.inputs)
        return [n for n in dict.fromkeys((*self.net.inputs, *read, *self.outputs)) if n in names]

    def _check_names(
        self, types: Mapping[str, object], constants: Mapping[str, Array], made: Sequence[Operator]
    ) -> None:
        """Checks that shapes and constants are for tensors from outside the net."""
        defined = {o for op in made for o in op.outputs}
        outside = {*self.net.inputs, *self.net.outputs}.difference(o for op in self.net.operators for o in op.outputs)
        known = {n for op in self.net.operators for n in op.inputs} | outside | defined
        for option, given in (("shape", types), ("constant", constants)):
            for name in given:
                if name not in known or (given is constants and name in types):
                    raise OptionError(
                        f"{option} {name}", "must be of a tensor that the net reads and does not make",
                        remedy=near_misses(name, known),
                    )  # fmt: skip

    def _check_shapes(self, names: Sequence[str]) -> None:
        """Raises FileError if a tensor from outside has no shape."""
        lacking = [n for n in names if n not in self.types]
        if not lacking:
            return
        found = listed(lacking)
        flag, entry = f"--shape {lacking[0]}=1x3x224x224", f'shapes={{"{lacking[0]}": "1x3x224x224"}}'
        if unknown := unconverted(step.operator.kind for step in self.steps):
            found += f"; and operators that qmlir does not import: {'; '.join(unknown)}"
        if self.init is None:
            remedy = f"give --weights with the net's init net, and {flag}; in Python weights=… and {entry}"
        else:
            remedy = f"give {flag}, or in Python {entry}"
        raise FileError(
            self.net.file, "each tensor that it reads must be in its init net or have a shape",
            got=f"no shape of {found}", remedy=remedy,
        )  # fmt: skip

    def _result(self, name: str) -> SSAValue:
        """Returns the value of a result; a constant that is stored as integers stays integers."""
        value = self.walk.value(name, "the result")
        try:
            return Caffe2Node("result", "", [name], self.builder, self.net.file).quantized(value)
        except UnsupportedError as refusal:
            raise FileError(
                self.net.file, f'result "{name}" must be of a type that qmlir has', got=refusal.need
            ) from None


def _check_versions(steps: Sequence[Step], net: Net, begins: frozenset[str]) -> None:
    """Raises OptionError if a needed operator reads an earlier tensor of a name at which the network begins."""
    order = {id(operator): i for i, operator in enumerate(net.operators)}
    written = {name: i for i, operator in enumerate(net.operators) for name in operator.outputs if name in begins}
    for step in steps:
        for name in step.operator.inputs:
            if name in written and order.get(id(step.operator), -1) <= written[name]:
                raise OptionError(
                    f"inputs {name}", "must name a tensor whose earlier values nothing else reads",
                    got=f'{step.operator.kind} "{next(iter(step.operator.outputs), "")}", which reads one',
                    remedy="name another tensor",
                )  # fmt: skip
