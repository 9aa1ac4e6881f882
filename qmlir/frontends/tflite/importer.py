"""The TFLite frontend's entry: a model in, a module with `func.func @main` on static tensors out.

    arguments   the main subgraph's inputs, on the types they are stored in: quantized ones on `!quant` types
    results     its outputs; both under the names of the file's signature, else under their tensors'
    between     nn operations in program order; those that no output needs are skipped

Layouts are channels-last already. An operator without a converter, or that its converter refuses, is `qmlir.opaque`
with the reason, and import goes on. Whatever depends on small constants alone is computed at import.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.dialects.dtypes import element_type_of
from qmlir.dialects.interfaces import TensorOp
from qmlir.dialects.nn.shape import ConstantOp
from qmlir.dialects.qmlir import NAME, NameAttr
from qmlir.errors import FileError, OptionError
from qmlir.frontends.builder import Builder
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.opaque import import_opaque, tensor_ir
from qmlir.frontends.tflite.reader import ABSENT, Model, Operator, Subgraph, Tensor, read_model
from qmlir.frontends.values import LIMIT, Constant, Dequantized, Refusal, Value
from qmlir.rewriting import name_hint

FAMILIES = tuple(import_module(f"{__package__}.{m.name}") for m in iter_modules([str(Path(__file__).parent)]))
"""Every module of the package: importing an operator family registers its converters."""

SMALL = 1 << 16
"""The most elements, operands and results together, of what is computed at import."""


def load_tflite(
    source: Path | str | bytes, *, bind: Mapping[str, int] | None = None, constants: Mapping[str, object] | None = None
) -> ModuleOp:
    """Imports a TFLite model.

    Args:
        source: The file, or what is in it.
        bind: Must be empty: dimensions of a TFLite file have no names, and it says how large each is.
        constants: Must be empty.

    Raises:
        FileError: It is no TFLite file, or says of itself what cannot be.
        NodeError: An operator is not what the schema says.
    """
    for option, given in (("bind", bind), ("constant", constants)):
        if given:
            raise OptionError(
                option, "is for .onnx files: a .tflite file has no symbolic dimensions and keeps its constants",
                got=", ".join(given), remedy="leave it out",
            )  # fmt: skip
    return _Importer(read_model(source)).run()


class _Importer:
    """The import of one model.

    values   what each tensor of the main subgraph is, by index
    """

    def __init__(self, model: Model):
        self.model, self.graph = model, model.subgraphs[0]
        self.values: dict[int, Value] = {}
        arguments = [self._argument(self.graph.tensors[i]) for i in self.graph.inputs]
        self.builder = Builder(Block(arg_types=arguments))
        self.names = [model.input_names.get(i) or self.graph.tensors[i].name for i in self.graph.inputs]
        for index, name, argument in zip(self.graph.inputs, self.names, self.builder.block.args, strict=True):
            argument.name_hint = name_hint(name)
            self.values[index] = argument

    def run(self) -> ModuleOp:
        """Imports every operator that an output needs."""
        for operator in needed(self.graph):
            self.operator(operator)
        results = [self._result(i) for i in self.graph.outputs]
        self.builder.block.add_op(func.ReturnOp(*results))
        self.builder.finish()
        inputs = [a.type for a in self.builder.block.args]
        main = func.FuncOp("main", (inputs, []), Region(self.builder.block), arg_attrs=_named(self.names))
        main.function_type = FunctionType.from_lists(inputs, [r.type for r in results])
        tensors = self.graph.tensors
        main.res_attrs = _named([self.model.output_names.get(i) or tensors[i].name for i in self.graph.outputs])
        return ModuleOp([main])

    def _argument(self, tensor: Tensor) -> Attribute:
        type = tensor_ir(tensor)
        if isinstance(type, UnrankedTensorType):
            raise FileError(
                self.model.file, f'input "{tensor.name}" must be of a type that qmlir has', got=tensor.kind.lower()
            )
        return type

    def _result(self, index: int) -> SSAValue:
        value = self.value(index)
        tensor = self.graph.tensors[index]
        try:
            made = self._node("output", [tensor]).quantized(value)
        except Refusal as refusal:
            raise FileError(
                self.model.file, f'output "{tensor.name}" must be of a type that qmlir has', got=refusal.reason
            ) from None
        return made

    def value(self, index: int) -> Value:
        """What a tensor is."""
        if index not in self.values:
            tensor = self.graph.tensors[index]
            if tensor.constant is None:
                raise FileError(
                    self.model.file, f'tensor "{tensor.name}" must be constant or computed before it is used',
                    got="neither", remedy="convert the model again",
                )  # fmt: skip
            constant = tensor.constant
            if constant.shape != tensor.shape:
                raise Refusal(f'its constant "{tensor.name}" is sparse or of type {tensor.kind.lower()}')
            self.values[index] = (
                Constant(constant, tensor.name)
                if tensor.type is None
                else Dequantized(constant, tensor.type, tensor.name)
            )
        return self.values[index]

    def _node(self, kind: str, tensors: Sequence[Tensor]) -> TFLiteNode:
        outputs = [t.name for t in tensors]
        return TFLiteNode(kind, "", outputs, self.builder, self.model.file, tensors=tensors)

    def operator(self, operator: Operator) -> None:
        """Imports an operator."""
        tensors = [self.graph.tensors[i] for i in operator.outputs]
        node = self._node(operator.kind, tensors)
        inputs: list[Value | None] = []
        try:
            # One by one: those before a refused one are operands of the opaque operation.
            for index in operator.inputs:
                inputs.append(None if index == ABSENT else self.value(index))
            converter = converts.get(operator.kind)
            if converter is None:
                raise Refusal("qmlir has no converter for it")
            results = converter(node, operator, inputs)
            if len(results) < len(tensors):
                raise node.error(f"it must have at most {len(results)} outputs", str(len(tensors)))
            results = self._folded(node, inputs, results)
            for tensor, result in zip(tensors, results, strict=False):
                self._check(node, tensor, result)
            node.commit(results, self.builder.block.add_ops)
        except Refusal as refusal:
            node.discard()
            names = ["" if i == ABSENT else self.graph.tensors[i].name for i in operator.inputs]
            results = import_opaque(node, operator, inputs, names, refusal.reason)
            node.commit(results, self.builder.block.add_ops)
        except FileError:
            node.discard()
            raise
        for index, result in zip(operator.outputs, results, strict=False):
            self.values[index] = result

    def _folded(self, node: TFLiteNode, inputs: Sequence[Value | None], results: list[Value]) -> list[Value]:
        """The results as constants, where all inputs are small plain ones."""
        plain = all(x is None or (isinstance(x, Constant) and not isinstance(x, Dequantized)) for x in inputs)
        made = [r for r in results if isinstance(r, SSAValue)]
        if not plain or not made or not node.pending or len(made) != len(results):
            return results
        known: dict[SSAValue, np.ndarray] = {}
        for op in node.pending:
            if not isinstance(op, TensorOp) or _elements(op) > SMALL:
                return results
            for operand in op.operands:
                if operand not in known:
                    if not isinstance(operand.owner, ConstantOp):
                        return results
                    known[operand] = operand.owner.value.array
            with np.errstate(all="ignore"):
                known.update(zip(op.results, op.evaluate(*(known[o] for o in op.operands)), strict=True))
        folded: list[Value] = [Constant(known[r], n) for r, n in zip(made, node.outputs, strict=False)]
        node.discard()
        return folded

    def _check(self, node: TFLiteNode, tensor: Tensor, result: Value) -> None:
        """Holds a result to what the file says of its tensor."""
        if np.prod([float(d) for d in node.shape(result)]) > LIMIT * 8:
            raise Refusal(f"its result is of shape {list(node.shape(result))}")
        if not tensor.dynamic and node.shape(result) != tensor.shape:
            raise node.error(f'its output "{tensor.name}" must have shape {list(node.shape(result))}',
                             str(list(tensor.shape)))  # fmt: skip
        type = node.type_of(result)
        if tensor.dtype is None:
            raise node.error(f'its output "{tensor.name}" must be of a type that qmlir has', tensor.kind.lower())
        expected = tensor.type if type is not None else element_type_of(tensor.dtype)
        found = type if type is not None else node.element(result)
        if str(expected) != str(found):
            raise node.error(f'its output "{tensor.name}" must be {found}', str(tensor.type or expected))


def needed(graph: Subgraph) -> list[Operator]:
    """The operators that an output needs, in order."""
    wanted, found = set(graph.outputs), list[Operator]()
    for operator in reversed(graph.operators):
        if wanted & set(operator.outputs):
            found.append(operator)
            wanted |= set(operator.inputs)
    return found[::-1]


def _elements(op: Operation) -> float:
    types = [v.type for v in (*op.operands, *op.results)]
    return sum(float(np.prod([float(d) for d in t.get_shape()])) for t in types if isinstance(t, TensorType))


def _named(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({NAME: NameAttr.of(tensors=[name])}) for name in names])
