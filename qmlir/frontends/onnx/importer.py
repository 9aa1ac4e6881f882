"""The entry of the ONNX frontend: a file → a module in nn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp, NoneType, TensorType
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.inputs import note_reading
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.errors import FileError, OptionError, UnsupportedError, near_misses
from qmlir.formats.onnx_states import STATES
from qmlir.formats.onnx_states import read as read_states
from qmlir.frontends.batches import note_batch
from qmlir.frontends.cut import WHOLE, Cut
from qmlir.frontends.function import Builder, Constant, Value
from qmlir.frontends.onnx.arguments import Inputs, batch_symbols, bind_shapes, bound_batch, dimensions
from qmlir.frontends.onnx.control import local_functions
from qmlir.frontends.onnx.ml import Labels
from qmlir.frontends.onnx.opaque import InferredTypes
from qmlir.frontends.onnx.quantization import argument_type
from qmlir.frontends.onnx.reader import Model, notes_of, read_model
from qmlir.frontends.onnx.sequences import Listed
from qmlir.frontends.onnx.types import element_dtype, element_name, element_type
from qmlir.frontends.onnx.walk import Walk, needed_tensors
from qmlir.ir.budget import BUDGET, Budget
from qmlir.ir.facts import BATCH_SIZE
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.reading import ReadingNotes
from qmlir.ir.states import StateAttr
from qmlir.ir.types import dtype_of, stored_type
from qmlir.numerics import native

# ---------------------------------------------------------------------------------------------------------------
# Where an ONNX network begins and ends: the file's inputs and outputs, or the tensors that a user names.


@dataclass(frozen=True)
class Ends:
    """Where a network begins and ends.

    arguments  the name and the type of each argument, in order
    outputs    the names of the results
    begins     the names of the arguments if a user names them, else nothing
    symbols    the symbolic dimensions of the file's inputs, which may have sizes although no argument has them
    """

    arguments: list[onnx.ValueInfoProto]
    outputs: list[str]
    begins: frozenset[str] = frozenset()
    symbols: tuple[str, ...] = ()


def ends_of(model: Model, cut: Cut, bind: Mapping[str, int], constants: Mapping[str, Array]) -> Ends:
    """Returns where a network begins and ends.

    The type of a tensor in the middle is what ONNX's shape inference finds, or what the file states.

    Args:
        model: The model.
        cut: The tensors that a user names.
        bind: Sizes of symbolic dimensions.
        constants: The values of inputs that become constants, by name.

    Raises:
        OptionError: The user names tensors that the model lacks, or inputs that do not suffice.
        FileError: The type of a tensor in the middle is not known.
    """
    graph = model.proto.graph
    initializers = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    # Before IR version 4 every initializer is the default value of an input of the same name.
    inputs = [i for i in graph.input if i.name not in initializers and i.name not in constants]
    outputs = [o.name for o in graph.output]
    if not cut.given():
        return Ends(inputs, outputs)
    cut.check((*(i.name for i in graph.input), *initializers, *(o for n in graph.node for o in n.output)))
    outputs = list(cut.outputs or outputs)
    begins = frozenset(cut.inputs or ())
    needed = needed_tensors(graph.node, outputs, begins)
    cut.check_needed(needed, [i.name for i in inputs])
    symbols = tuple(d for i in graph.input for d in dimensions(i) if isinstance(d, str))
    if cut.inputs is None:
        return Ends([i for i in inputs if i.name in needed], outputs, symbols=symbols)
    types = InferredTypes(model, _known_shapes(inputs, bind), constants)
    arguments = [_argument(model, types, name) for name in cut.inputs]
    return Ends(arguments, outputs, begins, symbols)


def _argument(model: Model, types: InferredTypes, name: str) -> onnx.ValueInfoProto:
    """Returns the name and the type of a tensor."""
    graph = model.proto.graph
    for tensor in graph.initializer:
        if tensor.name == name:
            return onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
    info = next((i for i in graph.input if i.name == name), None) or types.info(name)
    if info is None or not info.type.tensor_type.HasField("shape"):
        raise FileError(
            model.file, f'the shape of "{name}" must be known, so that the network can begin there', got="none",
            remedy="name another tensor, or export the model with the shapes of its tensors",
        )  # fmt: skip
    return info


def _known_shapes(inputs: list[onnx.ValueInfoProto], bind: Mapping[str, int]) -> dict[str, Shape]:
    """Returns the shapes of the inputs whose dimensions all have a size; an unbound first dimension is 1."""
    found: dict[str, Shape] = {}
    for info in inputs:
        dims = dimensions(info)
        sizes = [d if isinstance(d, int) else bind.get(d, 0 if axis else 1) for axis, d in enumerate(dims)]
        if info.type.tensor_type.HasField("shape") and min(sizes, default=1) > 0:
            found[info.name] = tuple(sizes)
    return found


# ---------------------------------------------------------------------------------------------------------------
# The ONNX frontend's entry: imports a model as a module with a `func.func @main` on static tensors.
#
#     arguments   the graph's inputs that are neither initializers nor bound to constants, under their tensors' names
#     results     the graph's outputs
#     body        nn operations; the spatial operations are channels last, arguments and results keep the model's layout
#                 (types.py)
#
# walk.py decides how each node is imported. Nodes that no output needs are skipped.


_SAVE_AGAIN = "export the model again"


def load_onnx(
    source: Path | str | bytes | onnx.ModelProto, *, bind: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None, fold_budget: int = BUDGET, cut: Cut = WHOLE,
) -> ModuleOp:  # fmt: skip
    """Imports an ONNX model.

    Args:
        source: A path, the bytes of a file, or a model in memory, which is left as it is.
        bind: Sizes of symbolic dimensions, an unbound first dimension being 1, and the numbers of tensors of inputs
            that are sequences or optional (arguments.py).
        constants: Values of inputs, by name; these inputs are no longer arguments.
        fold_budget: The most bytes that constants computed at import may take.
        cut: The tensors at which the network begins and ends.

    Returns:
        A module in the nn dialect. Operators that qmlir cannot import are `qmlir.opaque` in it; see `refuse_opaque`.

    Raises:
        FileError: The file cannot be read or is not an ONNX model.
        NodeError: A node breaks a rule of ONNX.
        OptionError: `bind`, `constants` or `cut` names a symbol, an input or a tensor that the model lacks, or gives a
            wrong value.
    """
    model = read_model(source, Budget(fold_budget))
    begun = _Import(model, bind or {}, constants or {}, cut)
    module = begun.run()
    note_reading(module, ReadingNotes.from_keys(notes_of(model.proto)))

    def again(samples: int) -> ModuleOp:
        sizes = {**(bind or {}), **dict.fromkeys(begun.symbols.values(), samples)}
        return _Import(replace(model, budget=Budget(fold_budget)), sizes, constants or {}, cut).run()

    note_batch(module, begun.symbols, again)
    if begun.samples > 1:
        BATCH_SIZE.put(module, begun.samples)
    return module


class _Import:
    """One import: the function that is built, and the walk over the nodes that adds operations to it."""

    def __init__(self, model: Model, bind: Mapping[str, int], constants: Mapping[str, Array], cut: Cut):
        self.model, self.graph = model, model.proto.graph
        given = _check_constants(self.graph, constants)
        end = ends_of(model, cut, bind, given)
        inputs = Inputs.of(end.arguments, bind, model.file)
        self.arguments, self.outputs = inputs.arguments(), end.outputs
        shapes = bind_shapes(self.arguments, inputs.bind, model.file, end.symbols)
        self.symbols = batch_symbols(self.arguments, inputs.bind, model.file)
        self.samples = bound_batch(self.arguments, inputs.bind, model.file)
        self.types = InferredTypes(model, shapes, given)
        arrays = {t.name: model.array(t) for t in self.graph.initializer if len(t.dims) <= 1}
        elements = [
            argument_type(self.graph, i.name, self.outputs, arrays, self._argument_element(i)) for i in self.arguments
        ]
        self.names = [i.name for i in self.arguments]
        types = [TensorType(element, shapes[name]) for name, element in zip(self.names, elements, strict=True)]
        self.builder = Builder.of(self.names, types, model.budget)
        self.walk = Walk.of(model, self.builder, self.types, local_functions(model.proto))
        self.walk.begins = end.begins
        for name, value in inputs.values(dict(zip(self.names, self.builder.block.args, strict=True))):
            self.walk.define(name, value)
        for name, array in model.initializers(self.graph):
            if name not in given and name not in end.begins:
                self.walk.define(name, Constant(array, name))
        for name, array in given.items():
            self.walk.define(name, Constant(array, name))

    def run(self) -> ModuleOp:
        """Imports every node that an output needs, and returns the module."""
        values = self.walk.run(self.graph.node, self.outputs)
        named_values = [each for n, v in zip(self.outputs, values, strict=True) for each in _tensors(n, v)]
        results, names = [self._output(n, v) for n, v in named_values], [n for n, _ in named_values]
        states = self._states(names, results)
        return self.builder.finish(results, names, states)

    def _states(self, outputs: Sequence[str], results: list[SSAValue]) -> dict[int, StateAttr]:
        """Returns the states that the file's metadata name, by argument, unless a user cut off their input or output.

        The integers of a state are those of its next value; a result under another quantized type gets the argument's.
        """
        text = next((entry.value for entry in self.model.proto.metadata_props if entry.key == STATES), "{}")
        places, found = {info.name: i for i, info in enumerate(self.arguments)}, dict[int, StateAttr]()
        try:
            for name, kept in read_states(text).items():
                self._check_state(name, kept.next)
                if name not in places or kept.next not in outputs:
                    continue
                argument, result = self.builder.block.args[places[name]], outputs.index(kept.next)
                results[result] = self._stored_alike(results[result], argument, name, kept.next)
                dtype = np.dtype(dtype_of(cast("TensorType[Attribute]", stored_type(argument.type)).element_type))
                found[places[name]] = StateAttr.of(result, kept.array(shape_of(argument), dtype))
        except ValueError as error:
            raise FileError(
                self.model.file, f"its metadata {STATES} must name inputs, outputs and numbers", got=str(error),
                remedy=f"export the model again, or remove {STATES} from its metadata and bind the states by --state",
            ) from None  # fmt: skip
        return found

    def _check_state(self, past: str, following: str) -> None:
        """Raises ValueError unless the file has such an input and output."""
        for name, known, what in ((past, self.graph.input, "input"), (following, self.graph.output, "output")):
            if not any(info.name == name for info in known):
                raise ValueError(f'"{name}", which is no {what} of the file')

    def _stored_alike(self, value: SSAValue, argument: SSAValue, past: str, following: str) -> SSAValue:
        """Returns a value as one of an argument's type, with the same stored integers.

        Raises:
            ValueError: They are stored in different ways.
        """
        if stored_type(value.type) != stored_type(argument.type):
            raise ValueError(f'"{past}" of {argument.type} and "{following}" of {value.type}')
        for type in (stored_type(value.type), argument.type):  # a cast has plain integers on one side
            if value.type != argument.type and value.type != type:
                value = StorageCastOp(value, cast("TensorType[Attribute]", type)).result
                self.builder.block.add_op(value.op)
        return value

    def _output(self, name: str, value: Value) -> SSAValue:
        """Returns the SSA value of an output of the graph, which may be a constant; texts become their indices."""
        if isinstance(value, Labels):
            self.builder.remarks[name] = value.remark()
            value = value.indices
        try:
            return self.builder.ssa(value)
        except UnsupportedError as refusal:
            raise FileError(
                self.model.file, f'output "{name}" must be of a type that qmlir has', got=refusal.need,
                remedy="remove it from the model",
            ) from None  # fmt: skip

    def _argument_element(self, info: onnx.ValueInfoProto) -> Attribute:
        element = element_type(info.type.tensor_type.elem_type)
        if isinstance(element, NoneType):
            raise FileError(
                self.model.file,
                f'input "{info.name}" must be of a type that qmlir has',
                got=element_name(info.type.tensor_type.elem_type),
            )
        return element


def _tensors(name: str, value: Value) -> list[tuple[str, Value]]:
    """Returns an output under its name; the tensors of a sequence are `<name>.0`, `<name>.1`, and so on."""
    if not isinstance(value, Listed):
        return [(name, value)]
    return [(f"{name}.{i}", item) for i, item in enumerate(value.items)]


def _check_constants(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the arrays bound to inputs, after checking their element types and shapes against the inputs."""
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
        if native(array.dtype) != wanted or not fits:
            shape = "of any shape" if sizes is None else str([s if s is not None else "?" for s in sizes])
            raise OptionError(f"constant {name}", f"must be {wanted} {shape}", got=f"{array.dtype} {list(array.shape)}")
    return {name: array.astype(native(array.dtype), copy=False) for name, array in constants.items()}
