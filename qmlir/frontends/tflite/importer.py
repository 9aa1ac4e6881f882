"""Imports a TFLite model as a module with `func.func @main` on static tensors.

    arguments   the subgraph's inputs on the types of their storage: `!quant` types for quantized tensors
    results     the subgraph's outputs; both have the names of the file's signature, else those of their tensors
    states      variables that live from call to call, as further arguments and results (variables.py)
    body        nn operations in program order; operators that no output needs are skipped (walk.py)

TFLite's layouts are channels-last, as nn's are. If an operator has no converter, or its converter refuses it, the
operator becomes `qmlir.opaque` with the reason, and the import continues. Operators whose inputs are small constants
are computed at import.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, UnrankedTensorType
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.inputs import note_reading
from qmlir.errors import FileError, OptionError, UnsupportedError
from qmlir.frontends.batches import note_batch
from qmlir.frontends.cut import WHOLE, Cut
from qmlir.frontends.function import Builder, sized
from qmlir.frontends.tflite.converters import tensor_ir
from qmlir.frontends.tflite.reader import Model, Signature, Subgraph, Tensor, read_model
from qmlir.frontends.tflite.walk import Walk, needed
from qmlir.ir.budget import BUDGET, Budget
from qmlir.ir.reading import ReadingNotes


def load_tflite(
    source: Path | str | bytes, *, bind: Mapping[str, int] | None = None, constants: Mapping[str, object] | None = None,
    signature: str | None = None, fold_budget: int = BUDGET, cut: Cut = WHOLE,
) -> ModuleOp:  # fmt: skip
    """Imports a TFLite model.

    Args:
        source: The path of the file, or the file's bytes.
        bind: Must be empty: a TFLite file names no dimensions and gives the size of each.
        constants: Must be empty: a TFLite file contains its constants.
        signature: The name of the signature whose subgraph to import; by default the first subgraph.
        fold_budget: The most bytes that constants computed at import may take.
        cut: The tensors at which the network begins and ends.

    Raises:
        FileError: The file is not a TFLite file, or contradicts itself.
        NodeError: An operator does not follow the schema.
        OptionError: An option has to be empty; or the file has no such signature, and the error lists the signatures;
            or it has no tensor that `cut` names.
    """
    for option, given in (("bind", bind), ("constant", constants)):
        if given:
            raise OptionError(
                option, "is for .onnx files: a .tflite file has no symbolic dimensions and keeps its constants",
                got=", ".join(given), remedy="leave it out",
            )  # fmt: skip
    model = read_model(source)
    chosen = _chosen(model, signature)
    graph = cut_subgraph(model, chosen, cut)
    begun = _Importer(model, graph, chosen, Budget(fold_budget))
    module = begun.run()
    note_reading(module, ReadingNotes.from_keys(model.notes))
    batched = [i for i in graph.inputs if graph.tensors[i].batch]

    def again(samples: int) -> ModuleOp:
        tensors = [
            replace(t, shape=(samples, *t.shape[1:])) if i in batched else t for i, t in enumerate(graph.tensors)
        ]
        return _Importer(model, replace(graph, tensors=tensors), chosen, Budget(fold_budget)).run()

    names = dict(zip(graph.inputs, begun.names, strict=True))
    note_batch(module, {names[i]: SYMBOL for i in batched}, again)
    return module


SYMBOL = "batch"
"""The name of a dimension that a file leaves open; TFLite has no names for dimensions."""


def cut_subgraph(model: Model, signature: Signature, cut: Cut) -> Subgraph:
    """Returns the subgraph of a signature, from and to the tensors that a user names.

    A name is that of a tensor, or else of an input or an output in the signature.
    """
    graph = model.subgraphs[signature.subgraph]
    if not cut.given():
        return graph
    indices = {name: i for named in (signature.outputs, signature.inputs) for i, name in named.items()}
    indices |= {tensor.name: i for i, tensor in enumerate(graph.tensors)}
    cut.check(indices)
    outputs = graph.outputs if cut.outputs is None else tuple(indices[n] for n in cut.outputs)
    inputs = () if cut.inputs is None else tuple(indices[n] for n in cut.inputs)
    cut_off = replace(graph, inputs=inputs, outputs=outputs)
    read = set(outputs).union(*(o.inputs for o in needed(cut_off, model)))
    if cut.inputs is None:
        return replace(cut_off, inputs=tuple(i for i in graph.inputs if i in read))
    names = {index: name for name, index in indices.items()} | dict(zip(inputs, cut.inputs, strict=True))
    cut.check_needed((names[i] for i in read if i in names), [names[i] for i in graph.inputs])
    return cut_off


def _chosen(model: Model, key: str | None) -> Signature:
    """Returns the signature called `key`; without a key the first of subgraph 0, or else a signature without names."""
    if key is None:
        main = (s for s in model.signatures if s.subgraph == 0)
        return next(main, Signature("", 0, {}, {}))
    keys = [s.key for s in model.signatures]
    if key not in keys:
        raise OptionError(
            "signature", f"must be one of the file's: {', '.join(keys) or 'it has none'}", got=key,
            remedy="leave it out for the first subgraph",
        )  # fmt: skip
    return model.signatures[keys.index(key)]


class _Importer:
    """The import of one subgraph of a model as the function `main`."""

    def __init__(self, model: Model, graph: Subgraph, signature: Signature, budget: Budget):
        self.model, self.graph, self.signature = model, graph, signature
        self.names = [signature.inputs.get(i) or self.graph.tensors[i].name for i in self.graph.inputs]
        self.builder = Builder.of(self.names, [self._argument(self.graph.tensors[i]) for i in graph.inputs], budget)
        self.walk = Walk.of(model, self.graph, self.builder)
        self.walk.values.update(zip(graph.inputs, self.builder.block.args, strict=True))

    def run(self) -> ModuleOp:
        """Imports the subgraph and returns the module."""
        self.walk.run()
        results = [self._result(i) for i in self.graph.outputs]
        outputs = [self.signature.outputs.get(i) or self.graph.tensors[i].name for i in self.graph.outputs]
        states, marks = self.walk.variables.states(), self.walk.variables.marks(len(results))
        results += [self.builder.ssa(state.value) for state in states if state.value is not None]
        return self.builder.finish(results, [*outputs, *(f"{state.name}.next" for state in states)], marks)

    def _argument(self, tensor: Tensor) -> Attribute:
        type = tensor_ir(tensor)
        if isinstance(type, UnrankedTensorType):
            raise FileError(
                self.model.file, f'input "{tensor.name}" must be of a type that qmlir has', got=tensor.kind.lower()
            )
        try:
            sized(tensor.shape)
        except UnsupportedError as refusal:
            raise FileError(
                self.model.file, f'input "{tensor.name}" must fit into a memory', got=refusal.need
            ) from None
        return type

    def _result(self, index: int) -> SSAValue:
        tensor = self.graph.tensors[index]
        try:
            made = self.walk.node("output", [tensor]).quantized(self.walk.value(index))
        except UnsupportedError as refusal:
            raise FileError(
                self.model.file, f'output "{tensor.name}" must be of a type that qmlir has', got=refusal.need
            ) from None
        return made
