"""A TFLite graph under construction: tensors, constants and operators.

Tensors get numbers and names when the graph is finished (model.py). Inputs and outputs get the names of the network's
signature; another tensor gets the name that is wanted for it, if that name is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]

from qmlir.backends.tflite.kernels import KERNELS, takes
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, Shape

Options = Mapping[str, Any]
"""An operator's options, by the schema's names."""

INDEX = np.dtype(np.int32)
"""The element type of TFLite's sizes, axes and paddings."""

BOOL = np.dtype(bool)
FLOAT = np.dtype(np.float32)

SMALL = 64
"""The most bytes of constants that are shared if they are equal."""


@dataclass(frozen=True)
class Parameters:
    """A tensor's quantization parameters: scales (float32 numbers), zero points, and the axis if they are per axis."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a tensor quantized per tensor."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor quantized per tensor."""
        return self.zero_points[0]


@dataclass(frozen=True)
class Form:
    """How a tensor is stored: shape, element type and quantization; without parameters it holds plain numbers."""

    shape: Shape
    dtype: np.dtype[Any]
    parameters: Parameters | None = None

    def shaped(self, shape: Shape) -> "Form":
        """Returns the same element type and parameters in another shape."""
        return replace(self, shape=tuple(shape))

    def typed(self, dtype: np.dtype[Any]) -> "Form":
        """Returns plain elements of another type in the same shape."""
        return Form(self.shape, dtype)


@dataclass(eq=False)
class Tensor:
    """A tensor of the graph.

    form     how the tensor is stored
    wanted   the name that the tensor gets if it is free; empty for none
    data     the elements of a constant
    made     whether an operator computes the tensor
    free     the axes whose sizes the batch decides, if the file leaves the batch open
    """

    form: Form
    wanted: str = ""
    data: Array | None = None
    made: bool = False
    free: frozenset[int] = frozenset()

    @property
    def shape(self) -> Shape:
        return self.form.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.form.dtype


@dataclass(eq=False)
class Operator:
    """An operator on tensors; `kind` is the schema's name of the builtin operator."""

    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    options: Options
    version: int


@dataclass
class Graph:
    """The graph under construction.

    scope      the prefix of the names of tensors that have no wanted name
    inputs     the network's inputs
    operators  all operators in the order in which they run
    """

    scope: str = ""
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    operators: list[Operator] = field(default_factory=list[Operator])
    _known: dict[tuple[Form, bytes], Tensor] = field(default_factory=dict[tuple[Form, bytes], Tensor])

    def input(self, form: Form) -> Tensor:
        """Adds an input of the network."""
        self.inputs.append(Tensor(form))
        return self.inputs[-1]

    def constant(self, array: Array, parameters: Parameters | None = None, wanted: str = "") -> Tensor:
        """Returns a constant tensor; equal small constants without a wanted name share a tensor."""
        array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns scalars into vectors
        form = Form(array.shape, array.dtype, parameters)
        if array.nbytes > SMALL or wanted:
            return Tensor(form, wanted or f"{self.scope}/constant", array)
        key = form, array.tobytes()
        return self._known.setdefault(key, Tensor(form, f"{self.scope}/constant", array))

    def indices(self, values: Sequence[Any]) -> Tensor:
        """Returns a constant list of sizes, indices or axes."""
        return self.constant(np.array(values, INDEX))

    def operator(
        self, kind: str, inputs: Sequence[Tensor], form: Form, options: Options | None = None, version: int = 1
    ) -> Tensor:
        """Adds an operator with one result and returns the result (see `several`)."""
        return self.several(kind, inputs, [form], options, version)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        forms: Sequence[Form],
        options: Options | None = None,
        version: int = 1,
    ) -> list[Tensor]:
        """Adds an operator and returns its results.

        Args:
            kind: The schema's name of the operator.
            inputs: The operator's inputs in the schema's order.
            forms: The storage of each result.
            options: The options that are not at their defaults.
            version: The least version that has these options; the data's type or rank may raise it.

        Raises:
            UnsupportedError: LiteRT has no kernel for data of this type or rank.
        """
        kernel = KERNELS[kind]
        data = inputs[kernel.data]
        quantized = data.form.parameters is not None
        if not takes(kind, data.dtype, quantized):
            known = kernel.quantized if quantized else kernel.plain
            what = "quantized " if quantized else ""
            raise UnsupportedError(
                f"needs {what}{', '.join(known.split()) or 'floats'} as data of TFLite's {kind}",
                f"{what}{data.dtype.name}", "cast it to one of these",
            )  # fmt: skip
        if len(data.shape) > kernel.most:
            raise UnsupportedError(f"needs at most {kernel.most} dimensions for TFLite's {kind}", str(len(data.shape)),
                         "reshape before and behind it")  # fmt: skip
        outputs = [Tensor(form, f"{self.scope}/{kind}", made=True) for form in forms]
        version = max(version, kernel.version(data.dtype.name, len(data.shape)))
        self.operators.append(Operator(kind, list(inputs), outputs, options or {}, version))
        return outputs

    def pointwise(
        self, kind: str, *inputs: Tensor, dtype: np.dtype[Any] | None = None, options: Options | None = None
    ) -> Tensor:
        """Adds an elementwise operator on plain numbers that broadcast; `dtype` defaults to the last input's type."""
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return self.operator(kind, inputs, Form(shape, dtype or inputs[-1].dtype), options)

    def number(self, value: float, like: Tensor) -> Tensor:
        """Returns a constant scalar in a tensor's element type, without quantization."""
        return self.constant(np.array(value, like.dtype))

    def index(self, value: int) -> Tensor:
        """Returns a constant scalar: a count or an axis."""
        return self.constant(np.array(value, INDEX))

    def reshaped(self, x: Tensor, shape: Shape) -> Tensor:
        """Reshapes a tensor; adds no operator if the shape does not change."""
        return x if x.shape == tuple(shape) else self.seen_as(x, x.form.shaped(shape))

    def seen_as(self, x: Tensor, form: Form) -> Tensor:
        """Copies the stored elements of a tensor to a tensor of another form."""
        return self.operator("RESHAPE", [x, self.indices(form.shape)], form, {"NewShape": list(form.shape)})

    def transposed(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Transposes a tensor; adds no operator if the permutation is the identity."""
        if list(permutation) == sorted(permutation):
            return x
        form = x.form.shaped(tuple(x.shape[p] for p in permutation))
        return self.operator("TRANSPOSE", [x, self.indices(permutation)], form)

    def converted(self, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        """Casts a tensor to plain numbers of another type; a quantized tensor gives its stored integers."""
        codes: Any = vars(tflite.TensorType)
        options = {"InDataType": codes[x.dtype.name.upper()], "OutDataType": codes[dtype.name.upper()]}
        return self.operator("CAST", [x], x.form.typed(dtype), options)

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenates tensors along an axis."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0].shape
        shape = (*first[:axis], sum(x.shape[axis] for x in parts), *first[axis + 1 :])
        return self.operator("CONCATENATION", parts, parts[0].form.shaped(shape), {"Axis": axis})
