"""`loops-to-llvm`: mlir-opt and mlir-translate take the llvm level as it is, and their LLVM IR computes our bits."""

import ctypes
from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.cpu import host_features
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.loops import CACHE_LINE, RUN_SHARES, arena_size_symbol, weights_symbol
from qmlir.ir.signature import Signature, signature_of
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.stages import SIMPLIFY, TO_INTEGERS, to_llvm, to_loops, to_plan
from tests.conftest import ROOT, THOROUGH, crossed
from tests.interop.cases import sample_case
from tests.interop.upstream import Array, assert_same_bits, iree_opt, llvm_ir, mlir_opt
from tests.ops.samples import SAMPLES
from tests.ops.test_lowerings import NOT_RUN


def llvm_level(module: ModuleOp, features: str = "", threads: int = 1) -> ModuleOp:
    """A network in the llvm dialect; for several threads, they share every loop."""
    _, *plan = to_plan()
    shared = ("share-items", {"threads": threads, "least_work": 1})
    return Pipeline(*TO_INTEGERS, *to_loops(), shared, *plan, *to_llvm(features))(module)


MARK = "// -----"
"""What stands between modules: the tools start once for several."""


def translated(*modules: ModuleOp) -> list[str]:
    """The LLVM IR of modules in the llvm dialect: of both their forms, of which mlir-opt has verified each."""
    custom, generic = (
        f"\n{MARK}\n".join(module_text(module, WeightsMode.INLINE, generic=generic) for module in modules)
        for generic in (False, True)
    )
    printed = mlir_opt(custom, "--split-input-file")
    assert printed == mlir_opt(generic, "--split-input-file")
    several = ("--split-input-file", f"--output-split-marker={MARK}")
    text = llvm_ir(printed, *several)
    assert text == llvm_ir(custom, *several)
    texts = text.split(MARK)
    assert len(texts) == len(modules)
    return texts


class Program:
    """LLVM IR compiled here as any program is: code and weights from one text, nothing else of ours."""

    def __init__(self, text: str, signature: Signature, entry: str = "main"):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
        )
        module = llvm.parse_assembly(text)
        module.verify()
        self.signature = signature
        self._engine = llvm.create_mcjit_compiler(module, machine)  # keeps code and weights in memory
        self._engine.finalize_object()
        self.weights = self._engine.get_global_value_address(weights_symbol(entry))
        size = self._engine.get_global_value_address(arena_size_symbol(entry))
        self.arena_size = ctypes.c_int64.from_address(size).value
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
        self._function = prototype(self._engine.get_function_address(entry))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for inputs in order."""
        outputs = [np.empty(spec.shape, spec.dtype) for spec in self.signature.outputs]
        arena = ctypes.create_string_buffer(self.arena_size + CACHE_LINE)
        start = ctypes.addressof(arena)
        tables = [(ctypes.c_void_p * len(t))(*(a.ctypes.data for a in t)) for t in (inputs, outputs)]
        self._function(self.weights, start + -start % CACHE_LINE, *tables)
        return outputs


def check(module: ModuleOp, samples: Sequence[Array], features: str = "") -> None:
    """Upstream's LLVM IR of a network gives the reference's bits."""
    reference = qmlir.reference(module)
    (text,) = translated(llvm_level(module, features))
    program = Program(text, reference.signature)
    assert program.weights % CACHE_LINE == 0
    for sample in samples:
        (got,) = program.run([sample])
        assert_same_bits(got, reference(sample))


def strokes() -> list[Array]:
    """A horizontal and a vertical stroke at each place, f32 [1, 8, 8, 1]."""
    images: list[Array] = []
    for place in range(8):
        image = np.zeros((1, 8, 8, 1), np.float32)
        image[0, place, 1:7] = 1
        images += [image, np.ascontiguousarray(image.swapaxes(1, 2))]
    return images


def example() -> ModuleOp:
    return Pipeline("quantize")(qmlir.load(ROOT / "examples/digits/model.mlir"))


@pytest.mark.slow
def test_example() -> None:
    check(example(), strokes())


@pytest.mark.slow
def test_loops_that_threads_share() -> None:
    """The pool is an external function; here it is one that computes two shares in turn."""
    declaration = f"declare void @{RUN_SHARES}(ptr, ptr, i64, i64)"
    (text,) = translated(llvm_level(example(), threads=2))
    assert text.count(declaration) == 1
    pool = f"""
define void @{RUN_SHARES}(ptr %body, ptr %args, i64 %items, i64 %threads) {{
  %half = sdiv i64 %items, 2
  call void %body(ptr %args, i64 1, i64 %half, i64 %items)
  call void %body(ptr %args, i64 0, i64 0, i64 %half)
  ret void
}}"""
    reference = qmlir.reference(example())
    program = Program(text.replace(declaration, pool), reference.signature)
    for sample in strokes():
        (got,) = program.run([sample])
        assert_same_bits(got, reference(sample))


def test_younger_tools_read_the_generic_form() -> None:
    """In the custom form they want properties spelled in a way that LLVM 19 does not read."""
    text = module_text(llvm_level(example()), WeightsMode.INLINE, generic=True)
    assert iree_opt(text).count("llvm.func") == text.count('"llvm.func"')


@pytest.mark.slow
@crossed({"schema": ["asymmetric", "symmetric_with_power2_scale", ""], "features": ["", "host"]})
def test_digits(schema: str, features: str) -> None:
    """Quantized, and float where no schema is named; in portable code, and with this processor's instructions."""
    data = np.load(ROOT / "examples/digits/digits.npz")
    module = Pipeline(*SIMPLIFY)(qmlir.load(ROOT / "examples/digits/digits.onnx"))
    if schema:
        profile = qmlir.profile(module, [x[None] for x in data["calibration_images"]])
        module = qmlir.quantize(module, profile, schema=schema, fail_on_float=True)
    check(module, [x[None] for x in data["test_images"][:100]], host_features() if features else "")


RUN = [sample for sample in SAMPLES if str(sample) not in NOT_RUN]
FIRST = [next(sample for sample in RUN if sample.op is op) for op in dict.fromkeys(sample.op for sample in RUN)]
"""The first sample of each operation."""


AT_ONCE = 16
"""Samples of which one process translates all."""

CHOSEN = RUN if THOROUGH else FIRST


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(CHOSEN), AT_ONCE))
def test_each_operation(first: int) -> None:
    cases = [sample_case(sample) for sample in CHOSEN[first : first + AT_ONCE]]
    for case, text in zip(cases, translated(*(llvm_level(case.module) for case in cases)), strict=True):
        main = main_function(case.module)
        program = Program(text, signature_of(main))
        with np.errstate(all="ignore"):
            (expected,) = evaluate(main, case.inputs)
        (got,) = program.run([np.asarray(x, order="C") for x in case.inputs])
        try:
            assert_same_bits(got, expected)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from None
