"""The ONNX frontend's entry: a model in, a module with `func.func @main` on static tensors out.

    arguments   the graph's inputs that are neither initializers nor bound to constants, under their tensors' names
    results     the graph's outputs
    between     nn operations, channels last inside, channels first at the borders (layout.py)

The walk is one pass over the nodes: constant subexpressions are folded (folding.py), known operators converted
(converters.py and one file per op family), all others kept as `qmlir.opaque` (opaque.py). Nodes that no output needs
are skipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, NoneType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import Array
from qmlir.dialects.qmlir import NAME, NameAttr
from qmlir.errors import FileError, OptionError
from qmlir.frontends.onnx import activation, contraction, elementwise, folding, normalization, pooling, shape
from qmlir.frontends.onnx.attributes import AttributeValue, attribute_value
from qmlir.frontends.onnx.builder import Builder, Node
from qmlir.frontends.onnx.converters import Signature, converts, folds
from qmlir.frontends.onnx.opaque import InferredTypes, import_opaque
from qmlir.frontends.onnx.reader import Model, read_model
from qmlir.frontends.onnx.symbols import bind_shapes
from qmlir.frontends.onnx.types import element_dtype, element_name, element_type
from qmlir.frontends.onnx.values import Constant, Refusal, Value
from qmlir.near_misses import near_misses
from qmlir.rewriting import name_hint

FAMILIES = (activation, contraction, elementwise, folding, normalization, pooling, shape)
"""Importing a family registers its converters."""

_SAVE_AGAIN = "export the model again"


def load_onnx(
    source: Path | str | bytes | onnx.ModelProto,
    *,
    bind: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> ModuleOp:
    """Imports an ONNX model.

    Args:
        source: A path, the bytes of a file, or a model in memory, which is left as it is.
        bind: Sizes of symbolic dimensions; an unbound first dimension is 1.
        constants: Values of inputs that are then no arguments any more.

    Returns:
        A module on the nn level. Operators that qmlir does not know are `qmlir.opaque` in it; see `refuse_opaque`.

    Raises:
        FileError: The file cannot be read or is no ONNX model.
        NodeError: A node breaks a rule of ONNX.
        OptionError: `bind` or `constants` names what the model does not have.
    """
    return _Import(read_model(source), bind or {}, constants or {}).run()


class _Import:
    """One import: the tensors known so far and the function that grows."""

    def __init__(self, model: Model, bind: Mapping[str, int], constants: Mapping[str, Array]):
        self.model, self.graph = model, model.proto.graph
        for sparse in self.graph.sparse_initializer:
            raise FileError(
                model.file, f'initializer "{sparse.values.name}" must be a dense tensor', got="a sparse one",
                remedy=_SAVE_AGAIN,
            )  # fmt: skip
        initializers = {t.name for t in self.graph.initializer}
        given = _check_constants(self.graph, constants)
        # Before IR version 4 every initializer is an input too, as its default value.
        self.arguments = [i for i in self.graph.input if i.name not in initializers and i.name not in constants]
        shapes = bind_shapes(self.arguments, bind, model.file)
        self.types = InferredTypes(model, shapes, given)
        self.builder = Builder(Block(arg_types=[
            TensorType(self._argument_element(i), shapes[i.name]) for i in self.arguments
        ]))  # fmt: skip
        self.values: dict[str, Value] = {}
        for info, argument in zip(self.arguments, self.builder.block.args, strict=True):
            argument.name_hint = name_hint(info.name)
            self._define(info.name, argument)
        for tensor in self.graph.initializer:
            if tensor.name not in given:
                self._define(tensor.name, Constant(model.array(tensor), tensor.name))
        for name, array in given.items():
            self._define(name, Constant(array, name))

    def run(self) -> ModuleOp:
        """Imports every node that an output needs."""
        inputs = [a.type for a in self.builder.block.args]
        main = func.FuncOp(
            "main", (inputs, []), Region(self.builder.block), arg_attrs=_named(i.name for i in self.arguments)
        )
        needed = _needed(self.graph)
        for proto in self.graph.node:
            if any(o in needed for o in proto.output):
                self._import(proto, needed)
        results = [self._output(o.name) for o in self.graph.output]
        self.builder.block.add_op(func.ReturnOp(*results))
        self.builder.finish()
        main.function_type = FunctionType.from_lists(inputs, [r.type for r in results])
        main.res_attrs = _named(o.name for o in self.graph.output)
        return ModuleOp([main])

    def _output(self, name: str) -> SSAValue:
        """An output of the graph, which may be constant."""
        try:
            return self.builder.ssa(self._value(name, f'output "{name}"'))
        except Refusal as refusal:
            raise FileError(
                self.model.file, f'output "{name}" must be of a type that qmlir has', got=refusal.reason,
                remedy="remove it from the model",
            ) from None  # fmt: skip

    def _import(self, proto: onnx.NodeProto, needed: set[str]) -> None:
        """Imports one node and defines its outputs."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        outputs = list(proto.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
        node = Node(kind, proto.name, outputs, self.builder, self.model.file)
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        inputs = [self._value(n, f'{node.kind} "{node.called()}"') if n else None for n in names]
        version = self.model.opsets.get(domain, 0)
        attributes = {a.name: attribute_value(a, self.model) for a in proto.attribute}
        _check_schema(proto, node, domain, version)
        try:
            results = self._convert(node, domain, proto.op_type, version, inputs, attributes)
            if missing := [o for o in outputs[len(results) :] if o in needed]:
                raise Refusal(f'its output "{missing[0]}" is used, which qmlir does not give')
        except Refusal as refusal:
            node.discard()
            results = import_opaque(node, version, inputs, names, attributes, self.types, refusal.reason)
        node.commit(results)
        for output, value in zip(outputs, results, strict=False):
            if output:
                self._define(output, value)

    def _convert(
        self,
        node: Node,
        domain: str,
        operator: str,
        version: int,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, AttributeValue],
    ) -> Sequence[Value]:
        """The value of each output: folded, or else converted."""
        if inputs and all(i is None or isinstance(i, Constant) for i in inputs):
            fold = folds.select(domain, operator, version)
            if fold is not None:
                arrays = [i.array if isinstance(i, Constant) else None for i in inputs]
                folded = _call(fold, node, arrays, attributes)
                return [Constant(np.asarray(a), o) for a, o in zip(folded, node.outputs, strict=False)]
        converter = converts.select(domain, operator, version)
        if converter is None:
            older = version and converts.select(domain, operator, 1 << 30)
            raise Refusal(f"qmlir knows no {node.kind}" + (f" of operator set {version}" if older else ""))
        return _call(converter, node, inputs, attributes, node)

    def _value(self, name: str, reader: str) -> Value:
        """The tensor of a name."""
        if name not in self.values:
            later = any(name in n.output for n in self.graph.node)
            raise FileError(
                self.model.file,
                f'{reader} reads the tensor "{name}", which must be defined before it',
                got="a definition after it" if later else "none",
                remedy=(None if later else near_misses(name, self.values)) or _SAVE_AGAIN,
            )
        return self.values[name]

    def _define(self, name: str, value: Value) -> None:
        if name in self.values:
            raise FileError(
                self.model.file, f'the tensor "{name}" must be defined once', got="several times", remedy=_SAVE_AGAIN
            )
        self.values[name] = value

    def _argument_element(self, info: onnx.ValueInfoProto) -> Attribute:
        element = element_type(info.type.tensor_type.elem_type)
        if isinstance(element, NoneType):
            raise FileError(
                self.model.file,
                f'input "{info.name}" must be of a type that qmlir has',
                got=element_name(info.type.tensor_type.elem_type),
            )
        return element


def _call(
    signature: Signature,
    node: Node,
    inputs: Sequence[Value | Array | None],
    attributes: Mapping[str, AttributeValue],
    *first: Node,
) -> Sequence[Value]:
    """Calls a converter or a fold."""
    signature.check(node, inputs, attributes)
    try:
        results: Any = signature.function(*first, *inputs, **attributes)
    except (VerifyException, ValueError, IndexError, TypeError, ArithmeticError, MemoryError) as error:
        raise node.error("its inputs and attributes must fit", " ".join(str(error).split())) from None
    return cast(Sequence[Value], results) if isinstance(results, tuple) else [results]


def _check_schema(proto: onnx.NodeProto, node: Node, domain: str, version: int) -> None:
    """Checks a node against ONNX's own description of its operator, where there is one.

    Raises:
        NodeError: It has too few or too many inputs or outputs, or an attribute of another type.
    """
    if not version or not onnx.defs.has(proto.op_type, version, domain):
        return
    schema = onnx.defs.get_schema(proto.op_type, version, domain)
    for what, count, least, most in (
        ("inputs", len(proto.input), schema.min_input, schema.max_input),
        ("outputs", len(proto.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            raise node.error(f"it must have {least} to {most} {what}", str(count))
    for attribute in proto.attribute:
        declared = schema.attributes.get(attribute.name)
        given = onnx.AttributeProto.AttributeType.Name(attribute.type)
        if declared is not None and declared.type != getattr(onnx.defs.OpSchema.AttrType, given, None):
            wanted = str(declared.type).removeprefix("AttrType.")
            raise node.error(f"its attribute {attribute.name} must be {wanted}", given)


def _check_constants(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs bound to values, of the types that the inputs have."""
    inputs = {i.name: i.type.tensor_type for i in graph.input}
    for name, array in constants.items():
        if name not in inputs:
            raise OptionError(
                f"constant {name}", "must be bound to an input of the model", remedy=near_misses(name, inputs)
            )
        dims = inputs[name].shape.dim if inputs[name].HasField("shape") else None
        wanted = element_dtype(inputs[name].elem_type)
        sizes = None if dims is None else [d.dim_value if d.HasField("dim_value") else None for d in dims]
        fits = sizes is None or (
            len(sizes) == array.ndim and all(s in (None, d) for s, d in zip(sizes, array.shape, strict=True))
        )
        if array.dtype != wanted or not fits:
            shape = "of any shape" if sizes is None else str([s if s is not None else "?" for s in sizes])
            raise OptionError(f"constant {name}", f"must be {wanted} {shape}", got=f"{array.dtype} {list(array.shape)}")
    return {name: np.asarray(array) for name, array in constants.items()}


def _needed(graph: onnx.GraphProto) -> set[str]:
    """The tensors that some output depends on."""
    needed = {o.name for o in graph.output}
    for node in reversed(graph.node):
        if any(o in needed for o in node.output):
            needed.update(_reads(node))
    return needed - {""}


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those of its subgraphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (o.name for o in graph.output)
            for inner in graph.node:
                yield from _reads(inner)


def _named(names: Iterator[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({NAME: NameAttr.of(tensors=[name])}) for name in names])
