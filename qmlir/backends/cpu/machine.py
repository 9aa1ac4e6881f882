"""LLVM's half of the CPU backend: compiles LLVM IR text to machine code for this processor or a named processor.

    text ──parse, verify──► module ──O3, loop and SLP vectorization──► module ──code generation──► object file

Optimization must not change a result: there is no fast-math and no contraction of products and sums (LLVM forms FMAs
only if the IR or the target options allow it, and neither does). llvmlite is imported on first use.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import count
from typing import Any, TypeAlias

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
    return llvm


def host_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return str(_llvm().get_host_cpu_name())


def host_features() -> str:
    """The features of this machine's processor as LLVM writes them, `+avx2,-avx512f,…`, for the pass loops-to-llvm."""
    return str(_llvm().get_host_cpu_features().flatten())


@dataclass(frozen=True)
class Machine:
    """A processor to generate code for.

    cpu       LLVM's name, such as `haswell`; empty for the most generic processor of this architecture
    features  features to switch on or off in addition to those that the name implies: `+avx2,-fma`
    """

    cpu: str
    features: str

    @staticmethod
    def host() -> "Machine":
        """The machine that this process runs on."""
        return Machine(host_cpu(), host_features())

    @staticmethod
    def named(cpu: str | None) -> "Machine":
        """The processor called `cpu`; the host's if it is None or "host"."""
        return Machine.host() if cpu in (None, "host") else Machine(str(cpu), "")

    def target_machine(self) -> TargetMachine:
        """LLVM's target machine for this processor, set to position-independent code.

        If LLVM does not know the name, it takes the generic processor and says so on standard error.
        """
        target = _llvm().Target.from_default_triple()
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="small")


def optimize(llvm_ir: str, machine: TargetMachine) -> ModuleRef:
    """Parses, verifies and optimizes a module in a new LLVM context, which lives as long as the module."""
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
    """Compiles LLVM IR text to an object file of optimized, relocatable code."""
    target = machine.target_machine()
    return bytes(target.emit_object(optimize(llvm_ir, target)))


def compile_assembly(llvm_ir: str, machine: Machine) -> str:
    """Compiles LLVM IR text to optimized assembly text, for readers."""
    target = machine.target_machine()
    return str(target.emit_assembly(optimize(llvm_ir, target)))


@cache
def _linker() -> Any:
    """The JIT linker of this process.

    JITLink places the sections of an object side by side, as the small code model requires. MCJIT's memory managers
    scatter the sections, or run out of room in the case of llvmlite's memory manager.
    """
    return _llvm().create_lljit_compiler(Machine("", "").target_machine(), use_jit_link=True)


_library_numbers = count()


class LoadedObject:
    """An object file in memory, linked and executable; the code lives as long as this Python object."""

    def __init__(self, data: bytes, entry: str):
        """Links `data`, which may call the C library (memcpy and the like) and nothing else.

        Raises:
            RuntimeError: LLVM finds no external function `entry`, or no definition of a function that the code calls.
        """
        llvm = _llvm()
        file = llvm.ObjectFileRef.from_data(data)
        self.code_bytes = sum(section.size() for section in file.sections() if section.is_text())
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process().export_symbol(entry)
        self._code = library.link(_linker(), f"executable{next(_library_numbers)}")
        self._linker = _linker()  # keeps the linker alive until the code is freed, also at the interpreter's exit
        self.address = int(self._code[entry])
