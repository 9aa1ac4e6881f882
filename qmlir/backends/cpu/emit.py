"""Prints the llvm dialect as LLVM IR text; floats are written as their bits, so that nothing is rounded."""

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn, TypeAlias, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.backends.cpu.alone import COPY, COPY_TEXT, DIVISIONS
from qmlir.backends.cpu.debug_info import DebugInfo
from qmlir.backends.cpu.llvm import Machine, host_triple
from qmlir.backends.cpu.native import declaration, native_symbol, passing_on
from qmlir.backends.cpu.permission import REQUEST
from qmlir.backends.cpu.pool import pool_text
from qmlir.dialects.loops import RUN_SHARES, arena_size_symbol, external_functions, weights_symbol
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import TOLD
from qmlir.ir.types import is_integer, is_vector
from qmlir.ir.upstream.llvm import (
    AddOp,
    ExtractElementOp,
    FCmpOp,
    FPToSIOp,
    FPToUIOp,
    MulOp,
    SelectOp,
    ShlOp,
    SubOp,
    UIToFPOp,
    X86AMXType,
)

# ---------------------------------------------------------------------------------------------------------------
# Types, constants and names


FLOAT_NAMES: Mapping[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}


def type_text(type: Attribute) -> str:
    """The LLVM text of a type.

    Raises:
        KeyError: The type has no LLVM text here.
    """
    if is_integer(type):
        return f"i{type.width.data}"
    if isinstance(type, llvm.LLVMPointerType):
        return "ptr"
    if is_vector(type):
        (lanes,) = type.get_shape()
        return f"<{lanes} x {type_text(type.element_type)}>"
    if isinstance(type, llvm.LLVMVoidType):
        return "void"
    if isinstance(type, X86AMXType):
        return "x86_amx"
    return FLOAT_NAMES[type.__class__]


def float_text(value: float, type: Attribute) -> str:
    """The text of a float constant, written as its bits so that nothing is rounded."""
    if isinstance(type, Float64Type):
        return f"0x{struct.pack('>d', value).hex().upper()}"
    if isinstance(type, Float32Type):  # LLVM writes a float as the double of the same value
        (single,) = struct.unpack(">f", struct.pack(">f", value))
        return f"0x{struct.pack('>d', single).hex().upper()}"
    if isinstance(type, Float16Type):
        return f"0xH{struct.pack('>e', value).hex().upper()}"
    raise KeyError(type)


def constant_text(value: Attribute) -> str:
    """The text of a constant's value, without its type."""
    if isinstance(value, IntegerAttr):
        integer = value.value.data
        if value.get_type() == i1:
            return "true" if integer else "false"
        return str(integer)
    if isinstance(value, FloatAttr):
        return float_text(value.value.data, value.get_type())
    if isinstance(value, DenseIntOrFPElementsAttr):
        dense = cast(DenseIntOrFPElementsAttr[Any], value)
        element: Attribute = dense.get_element_type()
        name = type_text(element)
        numbers: Iterable[Any] = islice(dense.iter_values(), 1) if dense.is_splat() else dense.get_values()
        if isinstance(element, AnyFloat):
            texts = [float_text(number, element) for number in numbers]
        elif element == i1:
            texts = ["true" if number else "false" for number in numbers]
        else:
            texts = [str(number) for number in numbers]
        if len(set(texts)) == 1:
            return f"splat ({name} {texts[0]})"
        return "<" + ", ".join(f"{name} {text}" for text in texts) + ">"
    raise KeyError(value)


def symbol(name: str) -> str:
    """A global name, quoted and escaped if LLVM requires it."""
    if re.fullmatch(r"[A-Za-z_.$][\w.$]*", name, re.ASCII):
        return name
    escaped = "".join(
        chr(b) if b < 128 and (chr(b).isalnum() or chr(b) in "._-$") else f"\\{b:02X}" for b in name.encode()
    )
    return f'"{escaped}"'


# ---------------------------------------------------------------------------------------------------------------
# Functions
#
# Enters: a module of `llvm.func`. Leaves: text that LLVM's parser reads. The printer covers the output of loops-to-
# llvm: it prints linkage, argument and function attributes, alignments and flags. It refuses an operation or attribute
# that it does not know, and never drops it. Constants are printed where they are used; block arguments become phis.
#
#     ^bb1(%i: i64):                               b1:
#       %p = llvm.getelementptr inbounds %x[%i]      %v3 = phi i64 [ 0, %b0 ], [ %v9, %b2 ]
#                                                    %v4 = getelementptr inbounds float, ptr %v0, i64 %v3


LINKAGES = {"internal": "internal ", "external": "", "private": "private "}

FUNCTION_PROPERTIES = {
    "sym_name",
    "function_type",
    "CConv",
    "linkage",
    "visibility_",
    "unnamed_addr",
    "arg_attrs",
    "no_inline",
    "no_unwind",
}

ARGUMENT_ATTRIBUTES: Mapping[str, str] = {
    "llvm.noalias": "noalias",
    "llvm.readonly": "readonly",
    "llvm.writeonly": "writeonly",
}

INTEGER_PREDICATES = tuple(llvm.ICmpPredicateFlag)
FLOAT_PREDICATES = tuple(flag.value.strip("_") for flag in llvm.FCmpPredicateFlag)


def emit_llvm_ir(module: ModuleOp, machine: Machine | None = None, *, debug_info: bool = False) -> str:
    """The LLVM IR text of a module's functions, for this machine or another one.

    With `debug_info`, metadata say which layer each function and each call computes.

    The globals that hold an entry's weights and the size of its arena are left out, because the caller provides both.
    Where the module declares the pool's function, the pool's text is there in its place. Where it uses the registers of
    a matrix unit, the text asks the system for them.

    Raises:
        UnsupportedError: The module has an operation, attribute or type that has no text here.
    """
    parts = [f'target triple = "{machine.triple}"\n'] if machine and machine.triple else []
    declarations: dict[str, str] = {}
    entries = [op.sym_name.data for op in module.ops if isinstance(op, llvm.FuncOp)]
    data = {name(entry) for entry in entries for name in (weights_symbol, arena_size_symbol)}
    linked = external_functions(module)
    alone = machine is not None and not machine.system.hosted
    debug = DebugInfo(module) if debug_info else None
    for op in module.ops:
        if isinstance(op, llvm.GlobalOp) and op.sym_name.data in data:
            continue
        if not isinstance(op, llvm.FuncOp):
            raise UnsupportedError.at(
                op.name, "module", "must be lowered to llvm functions", remedy="run loops-to-llvm first"
            )
        if op.sym_name.data == RUN_SHARES and not op.body.blocks:
            declarations[RUN_SHARES] = pool_text(machine)
        elif not op.body.blocks and (called := native_symbol(linked.get(op.sym_name.data))) is not None:
            if called in entries:
                raise UnsupportedError.at("custom.call", called, "must not be called like a function of the network")
            parts.append(passing_on(symbol(op.sym_name.data), linked[op.sym_name.data]))
            declarations[called] = declaration(called)
        elif not op.body.blocks and op.sym_name.data in linked:
            pointers = ", ".join("ptr" for _ in op.function_type.inputs)
            parts.append(f"declare void @{symbol(op.sym_name.data)}({pointers})\n")
        elif not op.body.blocks and op.sym_name.data == TOLD.of(module):
            parts.append(f"declare void @{symbol(op.sym_name.data)}(i32, i32)\n")
        else:
            parts.append(_FunctionWriter(op, declarations, debug, alone=alone).text())
    if any(name.startswith("llvm.x86.tile") for name in declarations):
        parts.append(_request(machine))
    if debug is not None:
        parts.append(debug.text())
    return "\n".join([*parts, *declarations.values(), ""])


def _request(machine: Machine | None) -> str:
    """The text that asks the system for the registers of a matrix unit, if the system wants to be asked."""
    if "linux" not in ((machine.triple if machine else "") or host_triple()):
        return ""
    if not host_triple().startswith("x86_64"):  # LLVM reads the instructions in it on their own architecture only
        raise UnsupportedError.at(
            "module", "code for AMX", "must be generated on x86-64", got=host_triple(), remedy="--features=-amx-int8"
        )
    return REQUEST


# -- functions --------------------------------------------------------------------------------------------------


class _FunctionWriter:
    """Writes one function; all values get their names before the first line, because phis refer to later values."""

    def __init__(
        self, function: llvm.FuncOp, declarations: dict[str, str], debug: DebugInfo | None = None, *,
        alone: bool = False,
    ):  # fmt: skip
        """Prepares to write a function.

        Args:
            function: The function.
            declarations: The text of what the functions written so far call, by name.
            debug: The debug lines; None for code without.
            alone: Whether the code runs without a C library (alone.py).
        """
        self.function = function
        self.alone, self.debug = alone, debug
        self.declarations = declarations
        self.names: dict[SSAValue, str] = {}
        self.labels: dict[Block, str] = {}

    def text(self) -> str:
        """The text of the whole definition."""
        function = self.function
        self.check()
        try:
            self.name_everything()
            signature = self.signature()
            phis = self.phis()
            lines: list[str] = []
            for block in function.body.blocks:
                lines.append(f"{self.labels[block]}:")
                lines += phis.get(block, ())
                for op in block.ops:
                    if type(op) not in SPELLED_IN_PLACE:
                        line = "" if self.debug is None else self.debug.of_operation(op, function)
                        lines.append("  " + self.instruction(op) + line)
        except KeyError as error:
            self.refuse(function, "must use types and constants that LLVM IR has", got=str(error.args[0]))
        linkage = LINKAGES[function.linkage.linkage.data]
        named = "" if self.debug is None else self.debug.of_function(function)
        return f"define {linkage}{signature}{named} {{\n" + "\n".join(lines) + "\n}\n"

    def refuse(self, op: Operation, need: str, *, got: str | None = None) -> NoReturn:
        raise UnsupportedError.at(op.name, self.function.sym_name.data, need, got=got)

    def check(self) -> None:
        """Refuses function attributes that the first line of the definition cannot express."""
        function = self.function
        unknown = [key for key in (*function.properties, *function.attributes) if key not in FUNCTION_PROPERTIES]
        if unknown:
            self.refuse(function, "must carry attributes that are printed", got=", ".join(unknown))
        if function.linkage.linkage.data not in LINKAGES:
            self.refuse(function, "must be internal, private or external", got=function.linkage.linkage.data)
        if function.function_type.is_variadic or function.CConv.cconv_name != "ccc":
            self.refuse(function, "must have fixed arguments and the C calling convention")
        if function.visibility_.value.data or (function.unnamed_addr and function.unnamed_addr.value.data):
            self.refuse(function, "must have default visibility and a significant address")
        if not function.body.blocks:
            self.refuse(function, "must have a body: nothing is linked from outside")

    def name_everything(self) -> None:
        names, count = self.names, 0
        for i, block in enumerate(self.function.body.blocks):
            self.labels[block] = f"b{i}"
            for arg in block.args:
                names[arg] = f"%v{count}"
                count += 1
            for op in block.ops:
                for result in op.results:
                    if isinstance(op, llvm.ConstantOp):
                        names[result] = constant_text(op.value)
                    elif isinstance(op, llvm.AddressOfOp):
                        names[result] = f"@{symbol(op.global_name.string_value())}"
                    elif isinstance(op, llvm.UndefOp):
                        names[result] = "poison"  # undefined lanes are never read; poison optimizes better than undef
                    else:
                        names[result] = f"%v{count}"
                        count += 1

    def signature(self) -> str:
        function = self.function
        first = function.body.blocks.first
        assert first is not None
        attributes = function.arg_attrs.data if function.arg_attrs else [DictionaryAttr({})] * len(first.args)
        arguments = [
            " ".join([type_text(arg.type), *self.argument_attributes(entry), self.names[arg]])
            for arg, entry in zip(first.args, attributes, strict=True)
        ]
        flags = (" nounwind" if function.no_unwind else "") + (" noinline" if function.no_inline else "")
        flags += ' "no-builtins"' if self.alone else ""
        result = type_text(function.function_type.output)
        return f"{result} @{symbol(function.sym_name.data)}({', '.join(arguments)}){flags}"

    def argument_attributes(self, entry: DictionaryAttr) -> list[str]:
        words: list[str] = []
        for key, value in entry.data.items():
            if key == "llvm.align" and isinstance(value, IntegerAttr):
                words.append(f"align {value.value.data}")
            elif key in ARGUMENT_ATTRIBUTES and isinstance(value, UnitAttr):
                words.append(ARGUMENT_ATTRIBUTES[key])
            else:
                self.refuse(self.function, "must have argument attributes that are printed", got=key)
        return words

    def phis(self) -> dict[Block, list[str]]:
        """The phi instructions of each block with arguments, from the branches that reach it."""
        incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        for block in self.function.body.blocks:
            last = block.last_op
            if isinstance(last, llvm.BrOp):
                incoming.setdefault(last.successor, []).append((self.labels[block], last.operands))
            elif isinstance(last, llvm.CondBrOp):
                then, otherwise = last.then_arguments, last.else_arguments
                if last.then_block is last.else_block and tuple(then) != tuple(otherwise):
                    self.refuse(last, "must not reach one block with different values")
                incoming.setdefault(last.then_block, []).append((self.labels[block], then))
                incoming.setdefault(last.else_block, []).append((self.labels[block], otherwise))
        lines: dict[Block, list[str]] = {}
        for block, edges in incoming.items():
            for i, arg in enumerate(block.args):
                values = ", ".join(f"[ {self.names[operands[i]]}, %{label} ]" for label, operands in edges)
                lines.setdefault(block, []).append(f"  {self.names[arg]} = phi {type_text(arg.type)} {values}")
        return lines

    # -- instructions ------------------------------------------------------------------------------------------

    def instruction(self, op: Operation) -> str:
        """The text of one operation: one instruction, with the name of its result if it has a result."""
        write = INSTRUCTIONS.get(type(op))
        if write is None:
            self.refuse(op, "has no LLVM IR text here")
        if op.attributes:
            self.refuse(op, "must carry attributes that are printed", got=", ".join(op.attributes))
        text = write(self, op)
        return f"{self.names[op.results[0]]} = {text}" if op.results else text

    def typed(self, value: SSAValue) -> str:
        """The text of an operand with its type."""
        return f"{type_text(value.type)} {self.names[value]}"


Instruction: TypeAlias = Callable[[_FunctionWriter, Any], str]


def _binary(mnemonic: str) -> Instruction:
    def write(w: _FunctionWriter, op: Operation) -> str:
        lhs, rhs = op.operands
        flags = ""
        for key, value in op.properties.items():
            if key == "overflowFlags" and isinstance(value, llvm.OverflowAttr):
                flags = "".join(f" {flag}" for flag in sorted(value.data, reverse=True))
            elif key == "isExact":
                flags = " exact"
            elif key == "isDisjoint":
                flags = " disjoint"
            else:
                _refuse_fastmath(w, op)
        if w.alone and mnemonic in DIVISIONS and type_text(lhs.type) == "i64":
            w.declarations |= DIVISIONS[mnemonic]
            return f"call i64 @qmlir.{mnemonic}({w.typed(lhs)}, {w.typed(rhs)})"
        return f"{mnemonic}{flags} {type_text(lhs.type)} {w.names[lhs]}, {w.names[rhs]}"

    return write


def _refuse_fastmath(w: _FunctionWriter, op: Operation) -> None:
    flags = op.properties.get("fastmathFlags")
    if isinstance(flags, llvm.FastMathAttr) and flags.data:
        w.refuse(op, "must not carry fast-math flags: results are exact", got=str(flags))


def _cast(mnemonic: str) -> Instruction:
    def write(w: _FunctionWriter, op: Operation) -> str:
        flags = " nneg" if "nonNeg" in op.properties else ""
        overflow = op.properties.get("overflowFlags")
        if isinstance(overflow, llvm.OverflowAttr) and overflow.data:
            w.refuse(op, "must be a plain conversion", got=str(overflow))
        return f"{mnemonic}{flags} {w.typed(op.operands[0])} to {type_text(op.results[0].type)}"

    return write


def _compare_integers(w: _FunctionWriter, op: llvm.ICmpOp) -> str:
    lhs, rhs = op.operands
    return f"icmp {INTEGER_PREDICATES[op.predicate.value.data]} {w.typed(lhs)}, {w.names[rhs]}"


def _compare_floats(w: _FunctionWriter, op: FCmpOp) -> str:
    _refuse_fastmath(w, op)
    lhs, rhs = op.operands
    return f"fcmp {FLOAT_PREDICATES[op.predicate.value.data]} {w.typed(lhs)}, {w.names[rhs]}"


def _listed(mnemonic: str) -> Instruction:
    """An instruction that is its mnemonic and its operands with their types."""

    def write(w: _FunctionWriter, op: Operation) -> str:
        _refuse_fastmath(w, op)
        return f"{mnemonic} {', '.join(w.typed(value) for value in op.operands)}"

    return write


def _address(w: _FunctionWriter, op: llvm.GEPOp) -> str:
    dynamic = iter(op.ssa_indices)
    indices = [
        w.typed(next(dynamic)) if index == llvm.GEP_USE_SSA_VAL else f"i64 {index}"
        for index in op.rawConstantIndices.get_values()
    ]
    inbounds = " inbounds" if op.inbounds is not None else ""
    return ", ".join([f"getelementptr{inbounds} {type_text(op.elem_type)}", w.typed(op.ptr), *indices])


def _load(w: _FunctionWriter, op: llvm.LoadOp) -> str:
    if op.ordering.value.data:
        w.refuse(op, "must not be atomic")
    return f"load {type_text(op.results[0].type)}, {w.typed(op.operands[0])}{_alignment(op)}"


def _store(w: _FunctionWriter, op: llvm.StoreOp) -> str:
    if (op.ordering and op.ordering.value.data) or op.volatile_ is not None or op.nontemporal is not None:
        w.refuse(op, "must be a plain store")
    value, pointer = op.operands
    return f"store {w.typed(value)}, {w.typed(pointer)}{_alignment(op)}"


def _stack_slot(w: _FunctionWriter, op: llvm.AllocaOp) -> str:
    return f"alloca {type_text(op.elem_type)}, {w.typed(op.size)}{_alignment(op)}"


def _alignment(op: Operation) -> str:
    alignment = op.properties.get("alignment")
    return f", align {alignment.value.data}" if isinstance(alignment, IntegerAttr) else ""


def _call(w: _FunctionWriter, op: llvm.CallOp) -> str:
    _refuse_fastmath(w, op)
    plain = op.CConv.cconv_name == "ccc" and not op.op_bundle_operands and op.var_callee_type is None
    if op.callee is None or not plain:
        w.refuse(op, "must call a function by name, in the C convention")
    return _call_text(w, op, op.callee.string_value(), op.args)


def _call_text(w: _FunctionWriter, op: Operation, name: str, arguments: Sequence[SSAValue]) -> str:
    return f"call {_result_text(op)} @{symbol(name)}({', '.join(w.typed(a) for a in arguments)})"


def _result_text(op: Operation) -> str:
    return type_text(op.results[0].type) if op.results else "void"


def _intrinsic(w: _FunctionWriter, op: llvm.CallIntrinsicOp) -> str:
    _refuse_fastmath(w, op)
    if op.op_bundle_operands:
        w.refuse(op, "must not have operand bundles")
    name, types = op.intrin.data, ", ".join(type_text(a.type) for a in op.args)
    if w.alone and name == "llvm.memcpy.p0.p0.i32":
        w.declarations[COPY] = COPY_TEXT
        return _call_text(w, op, COPY, op.args[:3])
    w.declarations.setdefault(name, f"declare {_result_text(op)} @{name}({types})")
    return _call_text(w, op, name, op.args)


def _shuffle(w: _FunctionWriter, op: llvm.ShuffleVectorOp) -> str:
    lanes = ["i32 poison" if lane < 0 else f"i32 {lane}" for lane in op.mask.get_values()]
    mask = f"<{len(lanes)} x i32> <{', '.join(lanes)}>"
    return f"shufflevector {w.typed(op.operands[0])}, {w.typed(op.operands[1])}, {mask}"


def _branch(w: _FunctionWriter, op: llvm.BrOp) -> str:
    return f"br label %{w.labels[op.successor]}"


def _branch_if(w: _FunctionWriter, op: llvm.CondBrOp) -> str:
    then, otherwise = w.labels[op.then_block], w.labels[op.else_block]
    return f"br i1 {w.names[op.operands[0]]}, label %{then}, label %{otherwise}"


def _return(w: _FunctionWriter, op: llvm.ReturnOp) -> str:
    return f"ret {w.typed(op.operands[0])}" if op.operands else "ret void"


SPELLED_IN_PLACE = (llvm.ConstantOp, llvm.UndefOp, llvm.AddressOfOp)

INSTRUCTIONS: Mapping[type[Operation], Instruction] = {
    **{
        kind: _binary(kind.name.removeprefix("llvm."))
        for kind in (
            *(AddOp, SubOp, MulOp, llvm.UDivOp, llvm.SDivOp, llvm.URemOp, llvm.SRemOp),
            *(llvm.AndOp, llvm.OrOp, llvm.XOrOp, ShlOp, llvm.LShrOp, llvm.AShrOp),
            *(llvm.FAddOp, llvm.FSubOp, llvm.FMulOp, llvm.FDivOp),
        )
    },
    **{
        kind: _cast(kind.name.removeprefix("llvm."))
        for kind in (
            *(llvm.SExtOp, llvm.ZExtOp, llvm.TruncOp, llvm.FPExtOp, llvm.FPTruncOp, llvm.BitcastOp, llvm.PtrToIntOp),
            *(llvm.SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp),
        )
    },
    llvm.FNegOp: _listed("fneg"),
    llvm.ICmpOp: _compare_integers,
    FCmpOp: _compare_floats,
    SelectOp: _listed("select"),
    llvm.GEPOp: _address,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.AllocaOp: _stack_slot,
    llvm.CallOp: _call,
    llvm.CallIntrinsicOp: _intrinsic,
    llvm.InsertElementOp: _listed("insertelement"),
    ExtractElementOp: _listed("extractelement"),
    llvm.ShuffleVectorOp: _shuffle,
    llvm.BrOp: _branch,
    llvm.CondBrOp: _branch_if,
    llvm.ReturnOp: _return,
}
