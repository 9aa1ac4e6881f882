"""LLVM's half of the CPU backend: compiles LLVM IR text to machine code for this processor or a named one.

    text ──parse, verify──► module ──O3, loop and SLP vectorization──► module ──code generation──► object file

Optimization must not change a result: there is no fast-math and no contraction of products and sums (LLVM forms FMAs
only if the IR or the target options allow it, and neither does). llvmlite is imported on first use.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import count
from types import MappingProxyType
from typing import Any, TypeAlias

from qmlir.backends.cpu.permission import matrix_registers_granted
from qmlir.backends.cpu.processors import NAMED, OF_NAMES, SYSTEMS, TRIPLES, System, spelled
from qmlir.backends.cpu.runtime import runtime_text
from qmlir.backends.cpu.stack import called_outside
from qmlir.errors import OptionError, UnsupportedError, near_misses

TargetMachine: TypeAlias = Any
ModuleRef: TypeAlias = Any
"""llvmlite's classes; llvmlite ships no type annotations."""


NO_MASKED_TAILS = "--vectorizer-min-trip-count=0"
"""An LLVM option: loops of few iterations are vectorized like other loops, with scalar code for the remainder.

By default LLVM masks the last vector of such a loop. For AVX-512, the code generator of LLVM 22.1 has a bug: if a
masked store of truncated elements has one lane on, it stores the wide element and overwrites the element's neighbours
(llvm-project issue 179489).
"""


@cache
def _llvm() -> Any:
    """llvmlite's initialized binding; `NO_MASKED_TAILS` applies to every use of LLVM in this process."""
    llvm = import_module("llvmlite.binding")
    llvm.set_option("qmlir", NO_MASKED_TAILS)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


NATIVE = "native"
"""The name of the processor of this machine."""


@cache
def _llvm_of_all() -> Any:
    """llvmlite's binding, initialized for the processors of all architectures, not only of this machine's."""
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def host_triple() -> str:
    """LLVM's name of this machine's architecture and system."""
    return str(_llvm().get_default_triple())


def triple_named(text: str) -> str:
    """The triple that a user names, with any vendor or without: one of `TRIPLES`, or empty for this machine's.

    Raises:
        OptionError: No code is generated for such a triple.
    """
    if text == host_triple():
        return ""
    parts = text.split("-")
    for known in TRIPLES:
        architecture, _, *system = known.split("-")
        if parts in ([architecture, *system], [architecture, *parts[1:2], *system]):
            return "" if known == host_triple() else known
    need = f"must be {', '.join(TRIPLES[:-1])} or {TRIPLES[-1]}"
    raise OptionError("triple", need, got=text, remedy=near_misses(text, [host_triple(), *TRIPLES]))


@cache
def host_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return str(_llvm().get_host_cpu_name())


@cache
def host_features() -> str:
    """The features of this machine's processor as LLVM writes them, `+avx2,-avx512f,…`, for the pass loops-to-llvm.

    The features of a matrix unit are on only if the system lets this process and its children use the unit.
    """
    features = _llvm().get_host_cpu_features()
    if features.get("amx-tile") and not matrix_registers_granted():
        features.update({name: False for name in features if name.startswith("amx-")})
    return str(features.flatten())


@dataclass(frozen=True)
class Machine:
    """A processor to generate code for.

    cpu       LLVM's name, such as `haswell`; empty for the most generic processor of the architecture
    features  features to switch on or off in addition to those that the name implies: `+avx2,-fma`
    triple    architecture and system, one of `TRIPLES`; empty for those of this machine
    """

    cpu: str
    features: str
    triple: str = ""

    @staticmethod
    def host() -> "Machine":
        """The machine that this process runs on."""
        return Machine(host_cpu(), host_features())

    @staticmethod
    def of(cpu: str | None = None, features: str | None = None, triple: str | None = None) -> "Machine":
        """The processor that a user names.

        Args:
            cpu: `native` or None, the processor of this machine with its features; or a processor of the architecture
                by LLVM's name: `x86-64-v3`, `znver3`; or one of `NAMED`, or LLVM's name of a processor of another
                architecture, which implies its triple. For a triple that is not this machine's, None is the most
                generic processor.
            features: Features to switch on or off in addition: `+avx2,-avx512f`.
            triple: Architecture and system, `aarch64-linux-gnu`; None for those of this machine.

        Raises:
            OptionError: There is no code for that triple, or LLVM knows no such processor or feature for this
                architecture, or a feature is switched off that all processors of this architecture have.
        """
        cpu = None if cpu is None else _known_name(cpu, triple)
        preset = NAMED.get(cpu or "")
        if triple is None and cpu not in (None, NATIVE, *known_to_llvm().processors):
            triple = preset.triple if preset is not None else _triple_of(str(cpu))
        system = "" if triple is None else triple_named(triple)
        own = preset and preset.triple.partition("-")[0] == (system or host_triple()).partition("-")[0]
        if preset is not None and own:
            features = ",".join(filter(None, [preset.features, features]))
            cpu = preset.cpu
        if cpu in (None, NATIVE) and not features and not system:
            return Machine.host()
        known = known_to_llvm(system)
        if cpu is not None and cpu not in known.processors and (system or cpu != NATIVE):
            need = f"must be {'' if system else f'{NATIVE} or '}a processor that LLVM knows"
            names = [*([] if system else [NATIVE, *NAMED, *_names_elsewhere()]), *known.processors]
            where = f"{need} of {system}" if system else need
            remedy = near_misses(cpu, names) or f"known: {', '.join([NATIVE, *NAMED])}"
            raise OptionError("cpu", where, got=cpu, remedy=remedy)
        lowest = baseline(system)
        items = [item.strip() for item in (features or "").split(",") if item.strip()]
        for item in items:
            if item[0] not in "+-":
                raise OptionError("features", "must be a list of +name and -name", got=item, remedy=f"write +{item}")
            if item[1:] not in known.features:
                remedy = near_misses(item[1:], known.features, prefix=item[0])
                raise OptionError("features", "must be features that LLVM knows", got=item, remedy=remedy)
            if item[0] == "-" and item[1:] in enabled(lowest):
                need = f"must leave on what every processor of this architecture has ({lowest.cpu})"
                raise OptionError("features", need, got=item)
        if system:
            named = lowest if cpu is None else Machine(cpu, "", system)
        else:
            named = Machine.host() if cpu in (None, NATIVE) else Machine(str(cpu), "")
        return replace(named, features=",".join(filter(None, [named.features, *items]))) if items else named

    @property
    def architecture(self) -> str:
        """LLVM's name of the architecture: `x86_64`, `aarch64`."""
        return (self.triple or host_triple()).partition("-")[0]

    @property
    def system(self) -> System:
        """What is known of the system; that of this machine has a C library and threads."""
        return SYSTEMS.get(self.triple or host_triple(), _HOST)

    def target_machine(self) -> TargetMachine:
        """LLVM's target machine for this processor; code for systems that load programs anywhere may lie anywhere."""
        target, reloc = _target(self.triple), "pic" if self.system.hosted else "static"
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc=reloc, codemodel="small")


_HOST = System("", hosted=True)
"""A system that is not among those that code is generated for everywhere: this machine's."""


@dataclass(frozen=True)
class Known:
    """What LLVM knows of this architecture: names of processors, and of features that processors have or lack."""

    processors: tuple[str, ...]
    features: tuple[str, ...]


def _known_name(cpu: str, triple: str | None) -> str:
    """Returns the name of a processor that a user means, as it is known here; the text itself if none is."""
    if triple is not None:
        return spelled(cpu, [*known_to_llvm(triple_named(triple)).processors, *NAMED])
    if cpu == NATIVE or cpu in known_to_llvm().processors:
        return cpu
    found = spelled(cpu, [NATIVE, *NAMED])
    return found if found in NAMED else spelled(cpu, [*known_to_llvm().processors, *_names_elsewhere()])


def _names_elsewhere() -> dict[str, str]:
    """LLVM's names of processors of other architectures → the triple that they imply."""
    found: dict[str, str] = {}
    for triple in OF_NAMES:
        if triple != host_triple():
            found.update((name, triple) for name in known_to_llvm(triple).processors if name not in found)
    return found


def _triple_of(cpu: str) -> str | None:
    """The triple that LLVM's name of a processor of another architecture implies; None for all other names."""
    return _names_elsewhere().get(cpu)


def _target(triple: str) -> Any:
    """LLVM's target for a machine's triple."""
    return _llvm_of_all().Target.from_triple(triple) if triple else _llvm().Target.from_default_triple()


def known_to_llvm(triple: str = "") -> Known:
    """The names that LLVM knows for the architecture of a machine's triple.

    LLVM tells the names of processors only as text on standard error, and once in a process: this process asks for this
    machine's, and one of its own for each other triple. So LLVM tells the features of another architecture; those of
    instructions are `Enable …` there, the others are names of processors, and preferences in generating code.
    """
    return _known_elsewhere(triple) if triple else _known_here()


@cache
def _known_here() -> Known:
    """The features that LLVM knows on this machine; meanwhile the standard error of the process is a file."""
    target = _target("")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            target.create_target_machine(cpu="help")
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        processors, _ = _names(file.read().decode(errors="replace"))
    return Known(processors, tuple(sorted(_llvm().get_host_cpu_features())))


ASKING = """import sys
triple, *sys.path[:] = sys.argv[1:]
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.Target.from_triple(triple).create_target_machine(cpu="help")
"""
"""A program that has LLVM tell the names for a triple; its arguments are the triple and this process's path."""


@cache
def _known_elsewhere(triple: str) -> Known:
    command = [sys.executable, "-c", ASKING, triple, *sys.path]
    told = subprocess.run(command, capture_output=True, check=True, text=True, errors="replace")
    processors, features = _names(told.stderr)
    return Known(processors, SYSTEMS[triple].askable or tuple(sorted(features)))


def _names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of processors and of instructions' features in the text that LLVM writes."""
    processors, _, features = text.partition("Available features")
    return (
        tuple(re.findall(r"^  (\S+) +- ", processors, re.MULTILINE)),
        tuple(re.findall(r"^  (\S+) +- Enable ", features, re.MULTILINE)),
    )


def baseline(triple: str = "") -> Machine:
    """The processor whose code every processor of the architecture of a machine's triple runs."""
    system = SYSTEMS.get(triple or host_triple())
    if system is not None:
        return Machine(system.cpu, system.features, triple)
    return Machine("x86-64" if "x86-64" in known_to_llvm(triple).processors else "generic", "", triple)


@cache
def enabled(machine: Machine) -> frozenset[str]:
    """The features that code for a machine may use, those that its name implies among them.

    LLVM tells the features of this machine only. Of others it shows them by what it inlines: never a function into one
    with fewer features. So a function that has one feature more than the machine is inlined if the machine has it, too.
    """
    if machine == Machine.host():
        return frozenset(f[1:] for f in machine.features.split(",") if f.startswith("+"))
    llvm, names = _llvm(), known_to_llvm(machine.triple).features
    lines: list[str] = []
    for n, name in enumerate(names):
        features = f"{machine.features},+{name}".removeprefix(",")
        lines.append(f'define internal void @f{n}(ptr %p) "target-features"="{features}" {{')
        lines.append(f"  store volatile i32 {n}, ptr %p\n  ret void\n}}")
    calls = [f"  call void @f{n}(ptr %p)" for n in range(len(names))]
    target = machine.target_machine()
    text = "\n".join([*lines, "define void @main(ptr %p) {", *calls, "  ret void\n}\n"])
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple, module.data_layout = target.triple, str(target.target_data)
    builder = llvm.create_pass_builder(target, llvm.PipelineTuningOptions(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    left = {int(n) for n in re.findall(r"\bcall .*@f(\d+)\(", str(module))}
    return frozenset(name for n, name in enumerate(names) if n not in left)


def beyond_baseline(machine: Machine) -> list[str]:
    """The features of a machine that not every processor of its architecture has."""
    return sorted(enabled(machine) - enabled(baseline(machine.triple)))


def described(machine: Machine) -> str:
    """Where code for a machine runs: `x86_64-unknown-linux-gnu like znver3, with avx, avx2, …`."""
    needed = beyond_baseline(machine)
    features = f" with {', '.join(needed)}" if needed else ""
    return f"{machine.triple or host_triple()}, processors like {machine.cpu or 'the most generic one'}{features}"


def missing_here(machine: Machine) -> list[str]:
    """The features that code for a machine may use and the processor of this machine lacks."""
    return sorted(enabled(machine) - enabled(Machine.host()))


def require_here(machine: Machine) -> None:
    """Refuses to run code for a machine that this one is not.

    Raises:
        UnsupportedError: The code is for another architecture, or for features that this processor lacks.
    """
    where = f"code for {machine.cpu}"
    if machine.triple:
        raise UnsupportedError(f"runs on {machine.triple} only", host_triple(), where=where)
    if missing := missing_here(machine):
        got = f"{Machine.host().cpu} without {', '.join(missing)}"
        raise UnsupportedError("runs on processors with all its features only", got, where=where)


def optimize(llvm_ir: str, machine: TargetMachine, context: Any = None) -> ModuleRef:
    """Parses, verifies and optimizes a module in a context, by default a new one that lives as long as the module."""
    llvm = _llvm()
    module = llvm.parse_assembly(llvm_ir, context or llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    tuning = llvm.PipelineTuningOptions(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    tuning.loop_interleaving = tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_object(llvm_ir: str, machine: Machine) -> bytes:
    """Compiles LLVM IR text to an object file of optimized, relocatable code."""
    target = machine.target_machine()
    return bytes(target.emit_object(_optimized(llvm_ir, machine, target)))


def compile_assembly(llvm_ir: str, machine: Machine) -> str:
    """Compiles LLVM IR text to optimized assembly text, for readers."""
    target = machine.target_machine()
    return str(target.emit_assembly(_optimized(llvm_ir, machine, target)))


def compile_both(llvm_ir: str, machine: Machine, data: str = "") -> tuple[bytes, str]:
    """Compiles LLVM IR text to an object file and to the assembly text of the same code.

    Args:
        llvm_ir: The text.
        machine: The processor.
        data: The text of constants that it declares. They are in the object, and in the assembly only declared.
    """
    target, context = machine.target_machine(), _llvm().create_context()
    found = _optimized(llvm_ir, machine, target, context)
    assembly = str(target.emit_assembly(found.clone()))  # generating code changes a module
    if data:
        module = _llvm().parse_assembly(data, context)
        module.triple, module.data_layout = target.triple, str(target.target_data)
        found.link_in(module)
    return bytes(target.emit_object(found)), assembly


def _optimized(llvm_ir: str, machine: Machine, target: TargetMachine, context: Any = None) -> ModuleRef:
    """Optimizes a module, and adds the functions for what the processor has no instruction for, if it calls any."""
    found = optimize(llvm_ir, target, context)
    if machine.system.runtime and (text := runtime_text(called_outside(str(target.emit_assembly(found))))):
        return optimize(f"{llvm_ir}\n{text}", target, context)
    return found


@cache
def _linker() -> Any:
    """The JIT linker of this process.

    JITLink places the sections of an object side by side, as the small code model requires. MCJIT's memory managers
    scatter the sections, or run out of room in the case of llvmlite's memory manager.
    """
    return _llvm().create_lljit_compiler(Machine("", "").target_machine(), use_jit_link=True)


def llvm_version() -> str:
    """The version of LLVM that generates code."""
    return ".".join(map(str, _llvm().llvm_version_info))


def code_bytes(data: bytes) -> int:
    """The bytes of machine code in an object file."""
    file = _llvm().ObjectFileRef.from_data(data)
    return sum(section.size() for section in file.sections() if section.is_text())


_library_numbers = count()


class LoadedObject:
    """An object file in memory, linked and executable; the code lives as long as this Python object."""

    def __init__(self, data: bytes, entry: str, symbols: Mapping[str, int] = MappingProxyType({})):
        """Links `data`, which may call the C library (memcpy and the like) and functions at given addresses.

        Args:
            data: The object file.
            entry: The external function whose address is wanted.
            symbols: Addresses of functions by name; they count instead of weak definitions in the object file.

        Raises:
            RuntimeError: LLVM finds no external function `entry`, or no definition of a function that the code calls.
        """
        llvm = _llvm()
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process().export_symbol(entry)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        self._code = library.link(_linker(), f"executable{next(_library_numbers)}")
        self._linker = _linker()  # keeps the linker alive until the code is freed, also at the interpreter's exit
        self.address = int(self._code[entry])
