"""Where an ONNX network begins and ends: the file's inputs and outputs, or the tensors that a user names."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from qmlir.errors import FileError
from qmlir.frontends.cut import Cut
from qmlir.frontends.onnx.dimensions import dimensions
from qmlir.frontends.onnx.opaque import InferredTypes
from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.onnx.walk import needed_tensors
from qmlir.ir.interfaces import Array, Shape


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
