"""An ONNX graph under construction: tensors, nodes, constants, and the check of each node against the operator set.

Tensors and nodes get names when the graph is finished (model.py). Inputs and outputs get the names of the network's
signature; another tensor gets the name that is wanted for it, if that name is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx

from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array

Attributes = dict[str, Any]

INDEX = np.dtype(np.int64)
"""The element type of ONNX's sizes and indices."""


BOOL = np.dtype(bool)
"""The element type of a comparison's result."""

WIDER = {np.dtype(narrow): np.dtype(np.int32) for narrow in (np.int16, np.uint16)}
"""Integer types for which onnxruntime lacks ArgMax, ArgMin, Max, Min, Pad and Where → wider types to compute in."""

MICROSOFT = "com.microsoft"
"""The domain of the operators that onnxruntime adds to ONNX's."""


@dataclass(eq=False)
class Tensor:
    """A tensor of the graph.

    dtype    the element type
    wanted   the name that the tensor gets if it is free; empty for none
    node     the node that computes the tensor; None for inputs and constants
    """

    dtype: np.dtype[Any]
    wanted: str = ""
    node: "Node | None" = None


@dataclass(eq=False)
class Node:
    """A node: an operator on tensors; `None` among the inputs is an absent optional input."""

    kind: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    attributes: Attributes
    wanted: str = ""
    domain: str = ""


@dataclass
class Graph:
    """The graph under construction.

    opset      the version of ONNX's own operators
    scope      the prefix of the names of tensors and nodes that have no wanted name
    """

    opset: int
    scope: str = ""
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[Tensor, Array] = field(default_factory=dict[Tensor, Array])
    _known: dict[tuple[str, tuple[int, ...], bytes], Tensor] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], Tensor]
    )

    def input(self, dtype: np.dtype[Any]) -> Tensor:
        """Adds an input of the network."""
        tensor = Tensor(dtype)
        self.inputs.append(tensor)
        return tensor

    def constant(self, array: Array, wanted: str = "") -> Tensor:
        """Returns a constant tensor; equal constants of up to 64 bytes without a wanted name share a tensor."""
        array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns scalars into vectors
        key = (array.dtype.name, array.shape, array.tobytes() if array.nbytes <= 64 else b"")
        if array.nbytes <= 64 and not wanted and key in self._known:
            return self._known[key]
        tensor = Tensor(array.dtype, wanted or f"{self.scope}/constant")
        self.constants[tensor] = array
        if array.nbytes <= 64 and not wanted:
            self._known[key] = tensor
        return tensor

    def indices(self, values: Sequence[int]) -> Tensor:
        """Returns a constant list of sizes, indices or axes."""
        return self.constant(np.array(list(values), INDEX))

    def cast(self, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        """Casts a tensor; adds no node if it has the type already."""
        return x if x.dtype == dtype else self.node("Cast", x, to=tensor_type(dtype), dtype=dtype)

    def where(self, condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        """Selects `lhs` where a condition holds, else `rhs`; 16-bit integers in 32 bits, as onnxruntime requires."""
        wide = WIDER.get(lhs.dtype, lhs.dtype)
        return self.cast(
            self.node("Where", condition, self.cast(lhs, wide), self.cast(rhs, wide), dtype=wide), lhs.dtype
        )

    def node(
        self,
        kind: str,
        *inputs: Tensor | None,
        dtype: np.dtype[Any] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> Tensor:
        """Adds a node and returns its first result.

        Args:
            kind: The operator.
            inputs: The operator's inputs in ONNX's order; None for an absent optional input.
            dtype: The element type of the result; by default the first input's.
            domain: The domain of the operator; by default ONNX's own.
            attributes: The attributes that are not at their defaults; an attribute of `None` is left out.

        Raises:
            UnsupportedError: The operator set lacks the operator, an attribute, or these types.
        """
        return self.several(kind, inputs, [dtype], domain, **attributes)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[np.dtype[Any] | None],
        domain: str = "",
        **attributes: Any,
    ) -> list[Tensor]:
        """Adds a node and returns all its results, which have the types `dtypes`; see `node`."""
        given = {name: value for name, value in attributes.items() if value is not None}
        if not domain:
            _check(kind, self.opset, [None if t is None else t.dtype for t in inputs], given)
        first = next(t.dtype for t in inputs if t is not None)
        outputs = [Tensor(dtype or first, f"{self.scope}/{kind}") for dtype in dtypes]
        node = Node(kind, list(inputs), outputs, given, f"{self.scope}/{kind}", domain)
        for output in outputs:
            output.node = node
        self.nodes.append(node)
        return outputs


# ---------------------------------------------------------------------------------------------------------------
# The check against the operator set


def tensor_type(dtype: np.dtype[Any]) -> int:
    """Returns ONNX's TensorProto.DataType of an element type.

    Raises:
        UnsupportedError: ONNX lacks the element type.
    """
    try:
        return onnx.helper.np_dtype_to_tensor_dtype(dtype)
    except (KeyError, ValueError):
        raise UnsupportedError(
            "must have elements that ONNX has", dtype.name, "cast them to a type that it has"
        ) from None


def _type_text(dtype: np.dtype[Any]) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(tensor_type(dtype)).lower()})"


def _check(kind: str, opset: int, dtypes: Sequence[np.dtype[Any] | None], attributes: Attributes) -> None:
    """Raises UnsupportedError unless the operator set has the operator, with these attributes and these input types."""
    if (schema := _schema(kind, opset)) is None:
        newest = _schema(kind, onnx.defs.onnx_opset_version())
        remedy = "rewrite the model without it" if newest is None else f"export with opset {newest.since_version}"
        raise UnsupportedError(f"needs ONNX's {kind}", f"opset {opset}, which has none", remedy)
    for name in attributes:
        if name not in schema.attributes:
            raise UnsupportedError(
                f"needs {name} of ONNX's {kind}", f"opset {opset}, which has none", "export with a later opset"
            )
    for index, dtype in enumerate(dtypes):
        formal = _formal(schema, index)
        if dtype is not None and _type_text(dtype) not in formal.types:
            newest = _schema(kind, onnx.defs.onnx_opset_version())
            later = newest is not None and _type_text(dtype) in _formal(newest, index).types
            raise UnsupportedError(
                f"needs {', '.join(sorted(formal.types))} as {formal.name} of ONNX's {kind} in opset {opset}",
                _type_text(dtype),
                "export with a later opset" if later else "cast it to one of these",
            )


def _formal(schema: onnx.defs.OpSchema, index: int) -> onnx.defs.OpSchema.FormalParameter:
    """Returns an operator's declaration of an input; the last declaration covers all further inputs."""
    return schema.inputs[min(index, len(schema.inputs) - 1)]


@cache
def _schema(kind: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(kind, opset, "")
    except onnx.defs.SchemaError:
        return None
