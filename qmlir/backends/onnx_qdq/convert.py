"""A function on the nn level as an ONNX graph: one walk in program order."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import onnx
from xdsl.dialects import func
from xdsl.ir import Operation

from qmlir.backends.onnx_qdq.exporters import EXPORTS
from qmlir.backends.onnx_qdq.graph import Graph, NoForm
from qmlir.backends.onnx_qdq.model import write_model
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects.calib import ObserveOp
from qmlir.errors import FileError, LoweringError, OptionError
from qmlir.rewriting import node_name
from qmlir.signature import signature_of

FAMILIES = tuple(import_module(f"{__package__}.{m.name}") for m in iter_modules([str(Path(__file__).parent)])
                 if m.name != "convert")  # fmt: skip
"""Every module of the package: importing an operator family enters its forms into the table."""

OLDEST_OPSET = 13
"""The first whose QuantizeLinear has scales along an axis."""

NEWEST_OPSET = onnx.defs.onnx_opset_version()
"""The newest that the installed onnx knows."""

DEFAULT_OPSET = min(26, NEWEST_OPSET)
"""The newest that onnxruntime 1.31 runs."""


def export_onnx(function: func.FuncOp, path: Path, *, opset: int = DEFAULT_OPSET) -> list[Path]:
    """Writes a network on the nn level, float or quantized, as an ONNX file.

    Args:
        function: Quantized values become integers between QuantizeLinear and DequantizeLinear.
        path: The .onnx file; weights of more than 2 GB go to a file beside it.
        opset: The version of ONNX's operators.

    Returns:
        The files written, all or none.

    Raises:
        FileError: The path is no .onnx file, or cannot be written.
        OptionError: There is no such opset.
        LoweringError: An operation or a type has no form in it.
    """
    if path.suffix != ".onnx":
        raise FileError(path, "must be the name of an .onnx file", remedy="let it end in .onnx")
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise OptionError("opset", f"must lie in {OLDEST_OPSET} … {NEWEST_OPSET}", got=str(opset))
    graph = Graph(opset)
    values = Values(graph)
    signature = signature_of(function)
    for argument, spec in zip(function.body.block.args, signature.inputs, strict=True):
        values.hold(argument, graph.input(spec.dtype))
    for op in function.body.block.ops:
        graph.scope = node_name(op)
        try:
            if isinstance(op, func.ReturnOp):
                return write_model(graph, [values.stored(o) for o in op.operands], signature, path)
            _export(op, values)
        except NoForm as why:
            raise LoweringError(op.name, node_name(op), why.need, got=why.got, remedy=why.remedy) from None
    raise LoweringError("func.func", function.sym_name.data, "must end with func.return")


def _export(op: Operation, values: Values) -> None:
    if isinstance(op, ObserveOp):
        return
    if (form := EXPORTS.get(type(op))) is None:
        raise NoForm("must be one of nn or a cast to or from quantized types", op.name, "export before nn-to-qint")
    form(op, values)
