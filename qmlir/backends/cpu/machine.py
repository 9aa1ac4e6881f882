"""LLVM's half of the CPU back end: text in, optimized machine code out, for this processor or a named one.

    text ──parse, verify──► module ──O3, loop and SLP vectorization──► module ──code generation──► object file

Nothing here may change a result: no fast-math, no contraction of products and sums (LLVM forms no FMA unless the IR
or the target options allow it; neither does). llvmlite is imported when first needed.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import count
from typing import Any, TypeAlias

TargetMachine: TypeAlias = Any
ModuleRef: TypeAlias = Any
"""llvmlite's classes; it ships no types."""


NO_MASKED_TAILS = "--vectorizer-min-trip-count=0"
"""Loops of few iterations are vectorized as others are, with scalar code for what is left over.

By default LLVM masks the last vector of such a loop. The code generator of LLVM 22.1 for AVX-512 stores a wide element
whole where a masked store of truncated elements has one lane on, and overwrites its neighbours (llvm-project issue
179489).
"""


@cache
def _llvm() -> Any:
    """llvmlite's binding, initialized. The option holds for all of LLVM in this process."""
    llvm = import_module("llvmlite.binding")
    llvm.set_option("qmlir", NO_MASKED_TAILS)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def host_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return str(_llvm().get_host_cpu_name())


def host_features() -> str:
    """What this machine's processor can do, as LLVM writes it: `+avx2,-avx512f,…`. An option of loops-to-llvm."""
    return str(_llvm().get_host_cpu_features().flatten())


@dataclass(frozen=True)
class Machine:
    """A processor to generate code for.

    cpu       LLVM's name, such as `haswell`; empty is the most generic of this architecture
    features  what to switch on or off beyond what the name implies: `+avx2,-fma`
    """

    cpu: str
    features: str

    @staticmethod
    def host() -> "Machine":
        """The machine this runs on."""
        return Machine(host_cpu(), host_features())

    @staticmethod
    def named(cpu: str | None) -> "Machine":
        """The processor called `cpu`; the host's if it is None or "host"."""
        return Machine.host() if cpu in (None, "host") else Machine(str(cpu), "")

    def target_machine(self) -> TargetMachine:
        """LLVM's object for it, for position-independent code.

        LLVM takes the generic processor for a name it does not know, and says so on standard error.
        """
        target = _llvm().Target.from_default_triple()
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="small")


def optimize(llvm_ir: str, machine: TargetMachine) -> ModuleRef:
    """Parses, verifies and optimizes a module, in an LLVM context of its own that goes with it."""
    llvm = _llvm()
    module = llvm.parse_assembly(llvm_ir, llvm.create_context())
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
    """An object file of optimized, relocatable code."""
    target = machine.target_machine()
    return bytes(target.emit_object(optimize(llvm_ir, target)))


def compile_assembly(llvm_ir: str, machine: Machine) -> str:
    """Optimized code as the assembler reads it, to look at."""
    target = machine.target_machine()
    return str(target.emit_assembly(optimize(llvm_ir, target)))


@cache
def _linker() -> Any:
    """One JIT linker a process.

    JITLink puts the sections of an object side by side, as the small code model needs; MCJIT's memory managers
    scatter them or, in llvmlite's own, run out of room.
    """
    return _llvm().create_lljit_compiler(Machine("", "").target_machine(), use_jit_link=True)


_library_numbers = count()


class LoadedObject:
    """An object file in memory, linked and executable. Its code lives as long as this object."""

    def __init__(self, data: bytes, entry: str):
        """Links `data`, which may call the C library (memcpy and the like) and nothing else.

        Raises:
            RuntimeError: LLVM finds no external function `entry`, or no definition of something it calls.
        """
        llvm = _llvm()
        file = llvm.ObjectFileRef.from_data(data)
        self.code_bytes = sum(section.size() for section in file.sections() if section.is_text())
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process().export_symbol(entry)
        self._code = library.link(_linker(), f"executable{next(_library_numbers)}")
        self._linker = _linker()  # goes after the code, should both go at the interpreter's end
        self.address = int(self._code[entry])
