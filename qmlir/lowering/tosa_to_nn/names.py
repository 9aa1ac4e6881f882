"""Names of a function's arguments and results, from the attributes that importers write.

    tosa.tensor_name, ml_program.identifier, tf_saved_model.index_path   on each argument and result
    tf.entry_function = {inputs = "a,b", outputs = "c"}                  on the function, by TFLite's importer

An argument without such a name is called as in the text, `%image`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute

from qmlir.ir.facts import NAME

KEYS = ("tosa.tensor_name", "ml_program.identifier", "tf_saved_model.index_path")


def argument_names(function: func.FuncOp) -> Sequence[str]:
    """The names of a function's arguments; empty for an argument without a name."""
    own = _names(function, function.arg_attrs, "inputs", len(function.body.block.args))
    return [name or a.name_hint or "" for name, a in zip(own, function.body.block.args, strict=True)]


def result_names(function: func.FuncOp) -> Sequence[str]:
    """The names of a function's results; empty for a result without a name."""
    return _names(function, function.res_attrs, "outputs", len(function.function_type.outputs))


def _names(function: func.FuncOp, attributes: ArrayAttr[DictionaryAttr] | None, key: str, count: int) -> Sequence[str]:
    entry = function.attributes.get("tf.entry_function")
    listed = entry.data.get(key) if isinstance(entry, DictionaryAttr) else None
    common = listed.data.split(",") if isinstance(listed, StringAttr) else []
    if len(common) != count:
        common = [""] * count
    if attributes is None:
        return common
    return [_name(own.data) or name.strip() for own, name in zip(attributes.data, common, strict=True)]


def _name(attributes: Mapping[str, Attribute]) -> str:
    name = NAME.among(attributes)
    if name is not None and name.tensors:
        return name.tensors[0]
    for key in KEYS:
        value = attributes.get(key)
        if isinstance(value, ArrayAttr):
            value = next(iter(cast(ArrayAttr[Attribute], value).data), None)
        if isinstance(value, StringAttr):
            return value.data
    return ""
