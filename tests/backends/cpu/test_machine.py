"""What LLVM makes of our loops: no masked stores, which LLVM 22.1 compiles wrongly for AVX-512. And the peak."""

import platform
import re

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu.machine import (
    CHAINS,
    DOT_FORMS,
    Machine,
    compile_assembly,
    dot_form,
    measure_peak,
    optimize,
    peak_code,
)
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text


@pytest.mark.parametrize("channels", [3, 5, 6, 7, 9])
def test_channels_that_fill_no_vector(channels: int) -> None:
    """int16 data, int64 sums: the narrow results of one pixel are not overwritten by those of its neighbour."""
    narrow, wide = f"{channels}xi16", f"{channels}xi64"
    weights = ", ".join(str((37 * i) % 255 - 127) for i in range(2 * channels))
    bias = ", ".join(str(10**5 * (i - 2)) for i in range(channels))
    multiplier, shift = (", ".join([n] * channels) for n in ("1695099400", "-7"))
    text = f"""func.func @main(%x: tensor<2x3x7x{narrow}>) -> tensor<2x1x4x{narrow}> {{
      %w = nn.constant <tensor<1x2x1x{channels}xi8>, [{weights}]> : tensor<1x2x1x{channels}xi8>
      %b = nn.constant <tensor<{wide}>, [{bias}]> : tensor<{wide}>
      %acc = qint.depthwise_conv2d %x, %w, %b {{strides = array<i64: 3, 2>}}
        : tensor<2x3x7x{narrow}>, tensor<1x2x1x{channels}xi8>, tensor<{wide}> -> tensor<2x1x4x{wide}>
      %y = qint.requantize %acc {{multiplier = array<i32: {multiplier}>, shift = array<i32: {shift}>,
        contract = "reduced16", min = -32768 : i32, max = 32767 : i32}}
        : tensor<2x1x4x{wide}> -> tensor<2x1x4x{narrow}>
      func.return %y : tensor<2x1x4x{narrow}>
    }}"""
    module = parse_text(make_context(), text, "test")
    random = np.random.default_rng(channels)
    x = random.integers(-(1 << 15), 1 << 15, (2, 3, 7, channels), dtype=np.int16)
    compiled = qmlir.compile(module)
    assert np.array_equal(compiled.run(x)[0], qmlir.reference(module).run(x)[0])
    optimized = str(optimize(compiled.llvm_ir, Machine("skylake-avx512", "").target_machine()))
    assert "llvm.masked.store" not in optimized


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="instructions of x86")
@pytest.mark.parametrize(
    ("cpu", "form"),
    [
        ("sapphirerapids", "vpdpbusd on 512 bits"),
        ("alderlake", "vpdpbusd on 256 bits"),
        ("skylake-avx512", "vpmaddwd + vpaddd on 512 bits"),
        ("haswell", "vpmaddwd + vpaddd on 256 bits"),
        ("x86-64", "pmaddwd + paddd on 128 bits"),
    ],
)
def test_the_peak_is_that_of_the_widest_dot_product(cpu: str, form: str) -> None:
    """Every chain is in the loop, on registers of that width."""
    (chosen,) = (f for f in DOT_FORMS if f.what == form)
    assert dot_form(frozenset(chosen.features) | {"sse2"}) is chosen
    text = compile_assembly(peak_code(chosen), Machine(cpu, ""))
    register = {512: "zmm", 256: "ymm", 128: "xmm"}[32 * chosen.lanes]
    multiplies = re.findall(rf"\b{form.split()[0]}\s.*%{register}\d+$", text, re.MULTILINE)
    assert len(multiplies) >= CHAINS


def test_the_peak_is_measured() -> None:
    portable = measure_peak(Machine.host(), frozenset())
    assert portable.what == "32-bit products on 128 bits"
    assert portable.products > 0
