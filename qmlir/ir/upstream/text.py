"""Prints a module as mlir-opt would, for users who compare the two texts.

Both tools read both texts; they differ in three spellings:

    here                                    mlir-opt
    affine_map<(d0) -> (d0)> in its place   `#map`, defined before the module
    %0, %1 = func.call @f()                 %0:2 = call @f(), used as %0#1
    func.return                             return: inside a function, the dialect's name is left out

Both write types in their places: mlir-opt reads `!q = !quant.uniform<…>` but prints no alias for the type.

The file is unnecessary once xDSL's printer spells these three as mlir-opt does.
"""

from dataclasses import dataclass, field
from io import StringIO

from xdsl.dialects import func
from xdsl.dialects.builtin import AffineMapAttr, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineBinaryOpExpr, AffineMap

from qmlir.ir.weights import WeightsPrinter


@dataclass(eq=False, repr=False)
class UpstreamPrinter(WeightsPrinter):
    """A printer of whole modules with mlir-opt's spelling; use `print_module`."""

    _maps: dict[AffineMapAttr, str] = field(default_factory=dict[AffineMapAttr, str], kw_only=True)
    """Affine maps in the order in which they are met → their aliases."""
    _shortened: str = field(default="", kw_only=True)
    """The operation name that is to be printed without its dialect."""

    @property
    def has_side_scales(self) -> bool:
        return False

    def print_module(self, module: ModuleOp) -> None:
        """Prints the aliases that a module uses, then the module."""
        out, self.stream = self.stream, StringIO()
        self.print_op(module)
        text, self.stream = self.stream.getvalue(), out
        maps, self._maps = self._maps, {}
        for attribute, alias in maps.items():
            self.print_string(f"{alias} = affine_map<{_map_text(attribute.data)}>\n")
        self.print_string(text)

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, AffineMapAttr):
            number = len(self._maps) or ""
            self.print_string(self._maps.setdefault(attribute, f"#map{number}"))
        else:
            super().print_attribute(attribute)

    def print_op(self, op: Operation) -> None:
        if isinstance(op.parent_op(), func.FuncOp) and op.name.startswith("func.") and not self.print_generic_format:
            self._shortened = op.name
        super().print_op(op)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if text == self._shortened:
            text, self._shortened = text.removeprefix("func."), ""
        super().print_string(text, indent=indent)

    def _print_results(self, op: Operation) -> None:
        if len(op.results) < 2 or any(r.name_hint for r in op.results):
            super()._print_results(op)
            return
        pack = self._get_new_valid_name_id()
        for result in op.results:
            self._ssa_values[result] = f"{pack}#{result.index}"
        self.print_string(f"%{pack}:{len(op.results)} = ")


def _map_text(map: AffineMap) -> str:
    """Returns a map's text without xDSL's brackets around a whole result: `(d0) -> (d0 floordiv 2)`."""
    inputs, _, _ = str(map).partition(" -> ")
    results = [str(r)[1:-1] if isinstance(r, AffineBinaryOpExpr) else str(r) for r in map.results]
    return f"{inputs} -> ({', '.join(results)})"
