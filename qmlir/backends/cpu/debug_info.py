"""Debug lines: machine code that names the layer it computes, for gdb, perf and whatever else reads DWARF.

The location of a layer (ir/locations.py) stands on the call of its kernel. A line of code is the number of the layer's
node in the model's file, or the line of the MLIR text; a function is called like the layer that it computes:

    kernel of one layer              the function has the layer's name and line
    kernel that layers share         the function keeps its symbol; each call of it is inside an inlined function with
                                     the layer's name and line
    entry function                   each call has its layer's line

Debug lines are metadata. LLVM generates the same instructions with them and without; on AArch64 it may order those
around a function's prologue otherwise.
"""

from collections.abc import Iterator
from importlib.metadata import version

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.dialects.loops import RUN_SHARES
from qmlir.ir.locations import Place, place_of

UNNAMED = "network"
"""The name of the file of a network that comes from no file."""


class DebugInfo:
    """The debug metadata of a module's functions, as LLVM IR text."""

    def __init__(self, module: ModuleOp):
        functions = [f for f in module.ops if isinstance(f, llvm.FuncOp) and f.body.blocks]
        self._layers = _layers(functions)
        self._nodes: list[str] = []
        self._numbers: dict[str, int] = {}
        self._subprograms: dict[str, int] = {}
        known = [place for places in self._layers.values() for place in places]
        self._file = next((place.file for place in known if place.file), UNNAMED)
        file, producer = self._file_node(self._file), _quoted(f"qmlir {version('qmlir')}")
        self._unit = self._node(
            f"distinct !DICompileUnit(language: DW_LANG_C11, file: !{file}, producer: {producer}, isOptimized: true, "
            "runtimeVersion: 0, emissionKind: FullDebug, splitDebugInlining: false)"
        )
        self._signature = self._node("!DISubroutineType(types: !{null})")

    def of_function(self, function: llvm.FuncOp) -> str:
        """Returns what follows the first line of a function."""
        return f" !dbg !{self._of_symbol(function.sym_name.data)}"

    def of_operation(self, op: Operation, function: llvm.FuncOp) -> str:
        """Returns what follows the text of an instruction of a function."""
        symbol = function.sym_name.data
        scope, place = self._of_symbol(symbol), place_of(op.location) if isinstance(op, llvm.CallOp) else None
        if place is None:
            own = self._only_layer(symbol)
            return f", !dbg !{self._line(own.line if own else 0, scope)}"
        if not place.name or self._only_layer(_callee(op)) is not None:
            return f", !dbg !{self._line(place.line, scope)}"
        inlined = self._subprogram(place.name, place)
        at = self._node(f"distinct !DILocation(line: {place.line}, scope: !{scope})")
        return f", !dbg !{self._node(f'!DILocation(line: {place.line}, scope: !{inlined}, inlinedAt: !{at})')}"

    def text(self) -> str:
        """Returns the metadata, which follow the functions."""
        flags = [self._node(f'!{{i32 {behaviour}, !"{name}", i32 {value}}}')
                 for behaviour, name, value in ((2, "Debug Info Version", 3), (7, "Dwarf Version", 4))]  # fmt: skip
        lines = [f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{{', '.join(f'!{n}' for n in flags)}}}"]
        return "\n".join([*lines, *(f"!{number} = {node}" for number, node in enumerate(self._nodes)), ""])

    def _only_layer(self, symbol: str) -> Place | None:
        """The layer that a function computes; None for an entry, and for a function that several layers share."""
        places = self._layers.get(symbol, {})
        return next(iter(places)) if len(places) == 1 else None

    def _of_symbol(self, symbol: str) -> int:
        if symbol not in self._subprograms:
            own = self._only_layer(symbol)
            place = own or Place(symbol, self._file, 0)
            self._subprograms[symbol] = self._subprogram(place.name or symbol, place)
        return self._subprograms[symbol]

    def _subprogram(self, name: str, place: Place) -> int:
        file = self._file_node(place.file or self._file)
        return self._node(
            f"distinct !DISubprogram(name: {_quoted(name)}, scope: !{file}, file: !{file}, "
            f"line: {place.line}, type: !{self._signature}, scopeLine: {place.line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self._unit})"
        )

    def _file_node(self, name: str) -> int:
        return self._node(f'!DIFile(filename: {_quoted(name)}, directory: "")')

    def _line(self, line: int, scope: int) -> int:
        return self._node(f"!DILocation(line: {line}, scope: !{scope})")

    def _node(self, text: str) -> int:
        """The number of a node of metadata; equal nodes are one, unless they are distinct."""
        if text.startswith("distinct") or text not in self._numbers:
            self._numbers[text] = len(self._nodes)
            self._nodes.append(text)
        return self._numbers[text]


def _layers(functions: list[llvm.FuncOp]) -> dict[str, dict[Place, None]]:
    """Symbol → the layers that call a function, itself or through other functions."""
    calls = {f.sym_name.data: list(_calls(f)) for f in functions}
    found: dict[str, dict[Place, None]] = {symbol: {} for symbol in calls}
    waiting = [(callee, place) for made in calls.values() for callee, place in made if place is not None]
    while waiting:
        symbol, place = waiting.pop(0)
        if symbol in found and place not in found[symbol]:
            found[symbol][place] = None
            waiting += [(callee, place) for callee, own in calls[symbol] if own is None]
    return found


def _calls(function: llvm.FuncOp) -> Iterator[tuple[str, Place | None]]:
    """The functions that a function calls, with the layer of each call if it is known."""
    for op in function.walk():
        if isinstance(op, llvm.CallOp) and op.callee is not None:
            yield _callee(op), place_of(op.location)


def _callee(op: Operation) -> str:
    """The function that an operation calls, itself or through the pool of threads; empty for other operations."""
    if not isinstance(op, llvm.CallOp) or op.callee is None:
        return ""
    name = op.callee.string_value()
    share = op.operands[0].owner if name == RUN_SHARES and op.operands else None
    return share.global_name.string_value() if isinstance(share, llvm.AddressOfOp) else name


def _quoted(text: str) -> str:
    """A string of LLVM IR."""
    kept = {ord(c) for c in " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"} | {*range(48, 58), *range(65, 91), *range(97, 123)}
    return '"' + "".join(chr(b) if b in kept else f"\\{b:02X}" for b in text.encode()) + '"'
