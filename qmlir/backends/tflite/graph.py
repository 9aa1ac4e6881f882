"""A TFLite graph under construction: tensors, constants and operators.

A tensor is an object until the graph is finished; only then it gets its number, and its name: inputs and outputs those
of the network's signature, others the one that is wanted for them if it is still free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.kernels import KERNELS, takes
from qmlir.dialects.interfaces import Array, Shape

Options = Mapping[str, Any]
"""By the schema's names."""

INDEX = np.dtype(np.int32)
"""What TFLite's sizes, axes and paddings are."""

BOOL = np.dtype(bool)
FLOAT = np.dtype(np.float32)

SMALL = 64
"""Bytes of constants that are one where they are equal."""


@dataclass(frozen=True)
class Parameters:
    """Of what real numbers stored integers are: scales as float32 numbers, and the axis that they count along."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a whole tensor."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a whole tensor."""
        return self.zero_points[0]


@dataclass(frozen=True)
class Form:
    """How a tensor is stored; without parameters its elements are plain numbers."""

    shape: Shape
    dtype: np.dtype[Any]
    parameters: Parameters | None = None

    def shaped(self, shape: Shape) -> "Form":
        """The same elements in another shape."""
        return replace(self, shape=tuple(shape))

    def typed(self, dtype: np.dtype[Any]) -> "Form":
        """Plain elements of another type in the same shape."""
        return Form(self.shape, dtype)


@dataclass(eq=False)
class Tensor:
    """A tensor of the graph.

    wanted   the name it shall have, if nothing else has it; empty for none
    data     its elements, if it is constant
    made     whether an operator makes it
    """

    form: Form
    wanted: str = ""
    data: Array | None = None
    made: bool = False

    @property
    def shape(self) -> Shape:
        return self.form.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.form.dtype


@dataclass(eq=False)
class Operator:
    """An operator on tensors."""

    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    options: Options
    version: int


@dataclass
class Graph:
    """The graph.

    scope   what tensors without a wish are named after
    """

    scope: str = ""
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    operators: list[Operator] = field(default_factory=list[Operator])
    _known: dict[tuple[Form, bytes], Tensor] = field(default_factory=dict[tuple[Form, bytes], Tensor])

    def input(self, form: Form) -> Tensor:
        """An input of the network."""
        self.inputs.append(Tensor(form))
        return self.inputs[-1]

    def constant(self, array: Array, parameters: Parameters | None = None, wanted: str = "") -> Tensor:
        """A constant; small ones that are equal are one."""
        array = np.ascontiguousarray(array).reshape(array.shape)  # the former makes scalars vectors
        form = Form(array.shape, array.dtype, parameters)
        if array.nbytes > SMALL or wanted:
            return Tensor(form, wanted or f"{self.scope}/constant", array)
        key = form, array.tobytes()
        return self._known.setdefault(key, Tensor(form, f"{self.scope}/constant", array))

    def indices(self, values: Sequence[Any]) -> Tensor:
        """A constant list of sizes, places or axes."""
        return self.constant(np.array(values, INDEX))

    def operator(
        self, kind: str, inputs: Sequence[Tensor], form: Form, options: Options | None = None, version: int = 1
    ) -> Tensor:
        """The only result of a new operator."""
        return self.several(kind, inputs, [form], options, version)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        forms: Sequence[Form],
        options: Options | None = None,
        version: int = 1,
    ) -> list[Tensor]:
        """The results of a new operator.

        Args:
            kind: The operator.
            inputs: As it declares them.
            forms: Of its results.
            options: Those that are not left at their defaults.
            version: The least that has all that is asked for; its types may ask for a later one.

        Raises:
            NoForm: LiteRT has no kernel for data of this type or so many dimensions.
        """
        kernel = KERNELS[kind]
        data = inputs[kernel.data]
        quantized = data.form.parameters is not None
        if not takes(kind, data.dtype, quantized):
            known = kernel.quantized if quantized else kernel.plain
            what = "quantized " if quantized else ""
            raise NoForm(
                f"needs {what}{', '.join(known.split()) or 'floats'} as data of TFLite's {kind}",
                f"{what}{data.dtype.name}", "cast it to one of these",
            )  # fmt: skip
        if len(data.shape) > kernel.most:
            raise NoForm(f"needs at most {kernel.most} dimensions for TFLite's {kind}", str(len(data.shape)),
                         "reshape before and behind it")  # fmt: skip
        outputs = [Tensor(form, f"{self.scope}/{kind}", made=True) for form in forms]
        version = max(version, kernel.version(data.dtype.name, len(data.shape)))
        self.operators.append(Operator(kind, list(inputs), outputs, options or {}, version))
        return outputs

    def pointwise(
        self, kind: str, *inputs: Tensor, dtype: np.dtype[Any] | None = None, options: Options | None = None
    ) -> Tensor:
        """An operator on single plain elements, whose operands broadcast; by default its result is of their type."""
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return self.operator(kind, inputs, Form(shape, dtype or inputs[-1].dtype), options)

    def number(self, value: float, like: Tensor) -> Tensor:
        """A plain scalar of a tensor's type."""
        return self.constant(np.array(value, like.dtype))

    def index(self, value: int) -> Tensor:
        """A constant count or axis."""
        return self.constant(np.array(value, INDEX))

    def reshaped(self, x: Tensor, shape: Shape) -> Tensor:
        """The same elements in another shape."""
        if x.shape == tuple(shape):
            return x
        options = {"NewShape": list(shape)}
        return self.operator("RESHAPE", [x, self.indices(shape)], x.form.shaped(shape), options)

    def transposed(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """The elements with dimensions permuted."""
        if list(permutation) == sorted(permutation):
            return x
        form = x.form.shaped(tuple(x.shape[p] for p in permutation))
        return self.operator("TRANSPOSE", [x, self.indices(permutation)], form)

    def converted(self, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        """Elements as plain numbers of another type; of a quantized tensor the stored integers."""
        codes: Any = vars(tflite.TensorType)
        options = {"InDataType": codes[x.dtype.name.upper()], "OutDataType": codes[dtype.name.upper()]}
        return self.operator("CAST", [x], x.form.typed(dtype), options)

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors side by side along an axis."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0].shape
        shape = (*first[:axis], sum(x.shape[axis] for x in parts), *first[axis + 1 :])
        return self.operator("CONCATENATION", parts, parts[0].form.shaped(shape), {"Axis": axis})

    def copied(self, x: Tensor) -> Tensor:
        """Another tensor with the same elements."""
        return self.operator("RESHAPE", [x, self.indices(x.shape)], x.form, {"NewShape": list(x.shape)})
