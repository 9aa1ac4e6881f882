"""ONNX's own test cases, as the installed onnx has them: a model, inputs and the outputs they must give.

node      one operator each, or the function body of one ("…_expanded"), made by onnx's scripts
simple, pytorch-converted, pytorch-operator   files in the onnx package
real      nine image networks of which the package has light versions: each weight one repeated number, so that all
          logits are equal; these say that a network imports, and nothing about its numbers
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

DATA = Path(onnx.backend.test.__file__).parent / "data"

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

PARAMETERS = frozenset(
    """axes axis block_shape depth delta dft_length ends frame_length frame_step image_shape k limit max
    max_output_boxes_per_class min num_mel_bins output_shape pads constant_value ratio repeats roi scales shape size
    sizes split start starts steps training_mode upper_edge_hertz lower_edge_hertz sample_rate M cond
    iou_threshold score_threshold diagonal sequence_lens position output_size trip_count
    """.split()
)
"""Formal names of the inputs that say what an operator does rather than what it does it to: shapes, axes, pads, bounds,
counts. Where they are not constant a network has no static shapes, or no fixed meaning."""

COUNTS = {"TopK": "K", "Compress": "condition", "ConstantOfShape": "input"}
"""The same, where another operator calls its data so."""

QUANTIZATION = re.compile(r".*(scale|zero_point|zero_points)")
"""Formal names of the inputs that are quantization parameters, which types hold."""

_CARRY = {"Cast", "CastLike", "Ceil", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Concat", "Gather", "Neg", "Add",
          "Sub", "Mul", "Div", "Relu", "Slice", "Split", "Equal", "Where", "Shape"}  # fmt: skip
"""What function bodies compute parameters of other parameters with."""


@dataclass(frozen=True)
class Case:
    """A model and data for it.

    name      "test_…", unique in its suite
    suite     one of `SUITES`
    operator  what the summary counts it under
    path      its file; None for a model in memory
    data      (inputs, outputs) each in the graph's order; whatever is not a tensor stays what it is
    whole     the model of the operator whose function body this model is; None for other models
    """

    name: str
    suite: str
    operator: str
    model: onnx.ModelProto
    path: Path | None
    data: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float
    whole: onnx.ModelProto | None = None

    def inputs(self) -> list[str]:
        """The names of the inputs that get data."""
        initializers = {t.name for t in self.model.graph.initializer}
        return [i.name for i in self.model.graph.input if i.name not in initializers]

    def parameters(self) -> list[str]:
        """The inputs that give shapes, axes and the like, and those that give scales and zero points."""
        found = {n for model in (self.model, self.whole) if model is not None for n in _parameters(model)}
        return [n for n in self.inputs() if n in found]


def _parameters(model: onnx.ModelProto) -> set[str]:
    """The tensors of a model that give shapes, axes and the like, or that such tensors are computed from."""
    versions = {o.domain: o.version for o in model.opset_import}
    found: set[str] = set()
    for node in reversed(model.graph.node):
        names = _formal_names(node, versions)
        found.update(i for i, formal in zip(node.input, names, strict=False) if _is_parameter(node, formal))
        if node.op_type in _CARRY and any(o in found for o in node.output):
            found.update(node.input)
    return found


def _is_parameter(node: onnx.NodeProto, formal: str) -> bool:
    if formal in PARAMETERS or COUNTS.get(node.op_type) == formal:
        return True
    return bool(QUANTIZATION.fullmatch(formal)) and re.search("Linear|Integer", node.op_type) is not None


def _formal_names(node: onnx.NodeProto, versions: dict[str, int]) -> list[str]:
    version = versions.get(node.domain, 0)
    if not version or not onnx.defs.has(node.op_type, version, node.domain):
        return []
    formal = [i.name for i in onnx.defs.get_schema(node.op_type, version, node.domain).inputs]
    return formal + formal[-1:] * (len(node.input) - len(formal))


@cache
def cases(suite: str) -> tuple[Case, ...]:
    """The cases of a suite, sorted by name."""
    if suite == "node":
        found = _node_cases()
    elif suite == "real":
        found = _light_cases()
    else:
        found = _file_cases(suite)
    return tuple(sorted(found, key=lambda c: c.name))


def _node_cases() -> Iterator[Case]:
    with np.errstate(all="ignore"):
        every: list[Any] = collect_testcases(None)
    models = {c.name: c.model for c in every if "_expanded" not in c.name}
    operators = {name: model.graph.node[0].op_type for name, model in models.items()}
    for c in every:
        whole = re.sub(r"_expanded.*", "", c.name)
        operator = operators.get(c.name) or operators.get(whole) or c.model.graph.node[-1].op_type
        data = tuple(([_tensor(v) for v in i], [_tensor(v) for v in o]) for i, o in c.data_sets)
        yield Case(
            c.name,
            "node",
            operator,
            c.model,
            None,
            data,
            c.rtol,
            c.atol,
            models.get(whole) if whole != c.name else None,
        )


def _file_cases(suite: str) -> Iterator[Case]:
    for c in load_model_tests(kind=suite):
        folder = Path(c.model_dir or "")
        model = onnx.load(folder / "model.onnx")
        data = tuple(
            (_tensors(s, "input", model.graph.input), _tensors(s, "output", model.graph.output))
            for s in sorted(folder.glob("test_data_set_*"))
        )
        operator = model.graph.node[-1].op_type if len(model.graph.node) else "(none)"
        yield Case(c.name, suite, operator, model, folder / "model.onnx", data, c.rtol, c.atol)


def _light_cases() -> Iterator[Case]:
    for path in DATA.glob("light/*.onnx"):
        yield Case(f"test_{path.stem}", "real", "(network)", onnx.load(path), path, (), 1e-3, 1e-7)


def _tensor(value: Any) -> Any:
    """A value as an array; a sequence or an absent optional stays as it is."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list | tuple) else np.asarray(value)


def _tensors(folder: Path, kind: str, infos: Any) -> list[Any]:
    found: list[Any] = []
    for i, info in enumerate(infos):
        path = folder / f"{kind}_{i}.pb"
        if not path.exists():
            break
        if info.type.HasField("tensor_type"):
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())))
        else:
            found.append(None)
    return found
