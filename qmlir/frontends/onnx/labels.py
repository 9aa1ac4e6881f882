"""Operators of the domain `ai.onnx.ml` that name classes: by integers, or by texts, which become their indices.

No type of the IR holds text. A tensor of texts that is computed at run time is `Labels`: a tensor of indices into texts
that are known at import. As an output of the model it is the indices, and a remark in the ledger lists the texts.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.opaque import AttributeValue
from qmlir.ir.interfaces import Array

converts = Table()

DOMAIN = "ai.onnx.ml"

MOVING = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Slice", "Gather")
"""Operators that move the elements of their first input."""


class Labels(Constant):
    """A tensor of texts that is computed at run time; it has no values, so that converters of tensors refuse it.

    indices  the index of each element's text, i64
    texts    the texts
    """

    def __init__(self, indices: Value, texts: Sequence[str]):
        self.indices, self.texts, self.name = indices, tuple(texts), ""

    @property
    def array(self) -> Array:
        raise UnsupportedError("it reads texts, of which qmlir computes the indices only")

    @property
    def carrier(self) -> Value:
        return self.indices

    def remark(self) -> str:
        """Returns what the ledger says of an output that is the indices."""
        listed = ", ".join(f'{index} is "{text}"' for index, text in enumerate(self.texts))
        return f"the model's texts are their indices: {listed}"


def moves(operator: str, attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether an operator moves labels, or casts them to texts, which they are already."""
    return operator in MOVING or (operator == "Cast" and attributes.get("to") == onnx.TensorProto.STRING)


def named_classes(node: ONNXNode, indices: Value, integers: Sequence[int], texts: Sequence[str]) -> Value:
    """Returns the names of classes, integers or texts, by their indices."""
    if texts:
        return Labels(indices, texts)
    if list(integers) == list(range(len(integers))):
        return indices
    return node.operator("Gather", Constant(np.array(integers, np.int64)), indices, axis=0)


@converts("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def array_feature_extractor(node: ONNXNode, x: Value, indices: Value) -> Value:
    """Picks elements of the last dimension; the result has two dimensions or more."""
    flat = node.reshaped(indices, (prod(node.shape(indices)),))
    if isinstance(x, Constant) and x.shape[-1:] == (prod(x.shape),) and x.array.dtype.kind == "O":
        return Labels(node.reshaped(flat, (1,) * (max(len(x.shape), 2) - 1) + node.shape(flat)), _texts(x.array))
    picked = node.operator("Gather", x, flat, axis=-1)
    shape = node.shape(picked)
    return node.reshaped(picked, shape if len(shape) > 1 else (1, *shape))


def _texts(array: Array) -> list[str]:
    """Returns the texts of a constant, which its file may hold as bytes."""
    flat: list[object] = array.reshape(-1).tolist()
    return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in flat]


@converts("ZipMap", since=1, domain=DOMAIN)
def zip_map(node: ONNXNode, x: Value, *, classlabels_int64s: Sequence[int] = (),
            classlabels_strings: Sequence[str] = ()) -> Value:  # fmt: skip
    """Returns x itself: a list of dictionaries from classes to the elements of each row has no type here."""
    keys = [*map(str, classlabels_int64s), *(f'"{text}"' for text in classlabels_strings)]
    if node.shape(x)[-1:] != (len(keys),):
        raise node.error("it must have a key for each element of a row", f"{len(keys)} of them")
    node.remark(f"{node.kind} is left out: the result is its values, in the order of its keys {', '.join(keys)}")
    return x


# ---------------------------------------------------------------------------------------------------------------
# LabelEncoder


@converts("LabelEncoder", since=1, domain=DOMAIN)
def label_encoder_1(
    node: ONNXNode,
    x: Value,
    *,
    classes_strings: Sequence[str],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:
    """Maps integers to the texts at their places, or texts to their places."""
    places = np.arange(len(classes_strings))
    if isinstance(x, Labels) or node.element(x)[0] != "i":
        return _encoded(node, x, classes_strings, places, default_int64)
    return _encoded(node, x, places, classes_strings, default_string)


@converts("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    node: ONNXNode, x: Value, *, keys_int64s: Sequence[int] = (), keys_floats: Sequence[float] = (),
    keys_strings: Sequence[str] = (), keys_tensor: Array | None = None, values_int64s: Sequence[int] = (),
    values_floats: Sequence[float] = (), values_strings: Sequence[str] = (), values_tensor: Array | None = None,
    default_int64: int = -1, default_float: float = -0.0, default_string: str = "_Unused",
    default_tensor: Array | None = None,
) -> Value:  # fmt: skip
    """Maps keys to the values at their places, and others to a default."""
    keys = _given(keys_tensor, keys_int64s, keys_floats, keys_strings)
    values = _given(values_tensor, values_int64s, values_floats, values_strings)
    default: object = {"i": default_int64, "f": default_float}.get(np.asarray(values).dtype.kind, default_string)
    if default_tensor is not None:
        default = _given(default_tensor)[0]
    return _encoded(node, x, keys, values, default)


def _given(tensor: Array | None, *lists: Sequence[int] | Sequence[float] | Sequence[str]) -> Array | Sequence[str]:
    """Returns the first list that has elements: numbers as an array, or texts."""
    if tensor is not None:
        return _texts(tensor) if tensor.dtype.kind == "O" else tensor.reshape(-1)
    found = next(filter(len, lists), ())
    if isinstance(next(iter(found), None), str):
        return [str(text) for text in found]
    return np.array(found, np.float32 if lists and found is lists[1] else np.int64)


def _encoded(
    node: ONNXNode, x: Value, keys: Array | Sequence[str], values: Array | Sequence[str], default: object
) -> Value:
    """Maps keys to values: finds the place of each element among the keys, 0 for none, and looks that up in a table."""
    if len(keys) != len(values):
        raise node.error(f"it must have {len(keys)} values, one for each key", str(len(values)))
    places = _places(node, x, keys)
    if isinstance(values, np.ndarray):
        table = np.concatenate([np.array([default], values.dtype), values])
        return node.operator("Gather", Constant(table), places, axis=0)
    return Labels(places, [str(default), *values])


def _places(node: ONNXNode, x: Value, keys: Array | Sequence[str]) -> Value:
    """Returns the place of each element among the keys, counted from 1, the first of equal keys; 0 for no key."""
    if isinstance(x, Labels):
        if isinstance(keys, np.ndarray):
            raise node.error("its keys must be texts, as its input is", str(keys.dtype))
        found = {key: place for place, key in reversed(list(enumerate(keys, 1)))}
        table = np.array([found.get(text, 0) for text in x.texts], np.int64)
        return node.operator("Gather", Constant(table), x.indices, axis=0)
    if not isinstance(keys, np.ndarray):
        raise UnsupportedError("it reads texts, for which qmlir has no type")
    distinct, first = np.unique(keys, return_index=True)
    if distinct.dtype.kind == "f" and np.isnan(distinct).any():
        raise UnsupportedError("one of its keys is NaN")
    node.room((*node.shape(x), len(distinct)))
    each = node.operator("Unsqueeze", x, Constant(np.array([-1])))
    equal = node.operator("Equal", each, node.operator("CastLike", Constant(distinct), x))
    hits = node.operator("Mul", node.operator("Cast", equal, to=onnx.TensorProto.INT64), Constant(first + 1))
    return node.operator("ReduceSum", hits, Constant(np.array([-1])), keepdims=0)
