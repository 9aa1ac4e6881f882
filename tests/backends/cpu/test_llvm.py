"""What LLVM makes of our loops: no masked stores, which LLVM 22.1 compiles wrongly. Processors by name; the peak."""

import platform
import re

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu.llvm import (
    TRIPLES,
    Machine,
    baseline,
    beyond_baseline,
    compile_assembly,
    described,
    enabled,
    host_cpu,
    host_features,
    host_triple,
    known_to_llvm,
    missing_here,
    optimize,
)
from qmlir.backends.cpu.peak import CHAINS, DOT_FORMS, dot_form, measure_peak, peak_code
from qmlir.errors import OptionError, UnsupportedError
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
        ("icelake-server", "vpdpbusd on 512 bits"),
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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="instructions of x86")
def test_the_peak_of_a_matrix_unit() -> None:
    """Sums are registers of the loop; those of a product are three, or the processor refuses it."""
    machine = Machine("sapphirerapids", "")
    chosen = dot_form(enabled(machine))
    assert chosen.what == "tdpbssd on 16 rows of 64 bytes"
    products = re.findall(r"tdpbssd\t%tmm(\d), %tmm(\d), %tmm(\d)", compile_assembly(peak_code(chosen), machine))
    assert len(products) >= chosen.chains
    assert all(len(set(registers)) == 3 for registers in products)


@pytest.mark.parametrize(
    ("cpu", "form"),
    [
        ("neoverse-v1", "sdot on 128 bits"),
        ("cortex-a76", "sdot on 128 bits"),
        ("cortex-a53", "smlal on 128 bits"),
    ],
)
def test_the_peak_of_another_architecture(cpu: str, form: str) -> None:
    machine = Machine(cpu, "", "aarch64-unknown-linux-gnu")
    chosen = dot_form(enabled(machine))
    assert chosen.what == form
    text = compile_assembly(peak_code(chosen), machine)
    assert len(re.findall(rf"\b{form.split()[0]}\tv", text)) >= CHAINS


def test_the_peak_is_measured() -> None:
    found = measure_peak(baseline())
    assert found.what == dot_form(enabled(baseline())).what
    assert found.products > 0


# ---------------------------------------------------------------------------------------------------------------
# Processors and features by name

x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="features of x86")


def test_native_is_this_processor() -> None:
    assert Machine.of() == Machine.of("native") == Machine.of(None, "") == Machine.host()
    assert missing_here(Machine.host()) == []
    assert {f"+{name}" for name in enabled(Machine.host())} == {f for f in host_features().split(",") if f[0] == "+"}


def test_the_probe_finds_what_llvm_tells_of_this_machine() -> None:
    """`enabled` reads the host's list; here it has to find the same by what LLVM inlines."""
    again = Machine(host_cpu(), host_features() + ",")
    assert again != Machine.host()
    assert enabled(again) == enabled(Machine.host())


@x86
@pytest.mark.parametrize(
    ("cpu", "features", "has", "lacks"),
    [
        ("x86-64", None, "sse2", "ssse3 sse4.1 avx"),
        ("x86-64-v2", None, "ssse3 sse4.1 popcnt", "avx avx2"),
        ("x86-64-v3", None, "avx avx2 fma f16c bmi2", "avx512f avxvnni"),
        ("x86-64-v4", None, "avx2 avx512f avx512bw avx512vl", "avx512vnni"),
        ("alderlake", None, "avx2 avxvnni", "avx512f"),
        ("x86-64-v2", "+avx2", "avx avx2", "fma"),
        ("x86-64-v4", "-avx512f", "avx2", "avx512f avx512bw avx512vl"),
        ("x86-64-v3", "+avx512vnni, -bmi2", "avx512vnni avx512f fma", "bmi2"),
        ("native", "-sse4.1", "sse2", "sse4.1 avx avx2"),
    ],
)
def test_features_of_names_and_lists(cpu: str, features: str | None, has: str, lacks: str) -> None:
    """Those that a name or a feature implies are among them."""
    on = enabled(Machine.of(cpu, features))
    assert on >= set(has.split())
    assert not on & set(lacks.split())


@x86
@pytest.mark.parametrize(
    ("cpu", "features", "message"),
    [
        ("znver33", None, r"cpu: must be native or a processor that LLVM knows, got znver33; did you mean znver3"),
        ("help", None, r"cpu: must be native or a processor that LLVM knows, got help"),
        ("", None, r"cpu: must be native or a processor that LLVM knows, got"),
        (None, "avx2", r"features: must be a list of \+name and -name, got avx2; write \+avx2"),
        ("x86-64-v3", "+avx22", r"features: must be features that LLVM knows, got \+avx22; did you mean \+avx2"),
        (None, "-avx512", r"features: must be features that LLVM knows, got -avx512; did you mean -avx512f"),
        ("native", "-sse2", r"features: must leave on what every processor of this architecture has \(x86-64\)"),
    ],
)
def test_names_that_are_refused(
    cpu: str | None, features: str | None, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OptionError, match=message):
        Machine.of(cpu, features)
    assert capfd.readouterr().err == ""


@x86
def test_code_is_generated_for_the_features() -> None:
    """The instructions that loops-to-llvm chooses are those of the processor, and so is what LLVM makes of the rest."""
    text = """func.func @main(%x: tensor<1x64xi8>) -> tensor<1x32xi32> {
      %w = nn.constant <tensor<32x64xi8>, dense> : tensor<32x64xi8>
      %y = qint.fully_connected %x, %w {zero_point = 3 : i32} : tensor<1x64xi8>, tensor<32x64xi8> -> tensor<1x32xi32>
      func.return %y : tensor<1x32xi32>
    }""".replace("dense", f'"0x{bytes(range(256)).hex() * 8}"')
    module = parse_text(make_context(), text, "test")
    narrow, wide = (qmlir.compile(module, cpu=cpu) for cpu in ("x86-64", "x86-64-v4"))
    assert "llvm.x86.sse2.pmadd.wd" in narrow.llvm_ir
    assert "llvm.x86.avx512.pmaddw.d.512" in wide.llvm_ir
    assert "zmm" in wide.assembly()
    assert "ymm" not in narrow.assembly()
    x = np.arange(64, dtype=np.int8)[None]
    assert np.array_equal(narrow(x), qmlir.reference(module)(x))


@x86
def test_code_for_another_processor_does_not_run_here() -> None:
    lacking = sorted(set(known_to_llvm().features) - enabled(Machine.host()) - {"x87"})
    name = next(n for n in lacking if n in ("avx512f", "amx-tile", "avxvnni", "sm4", "xop", "fma4"))
    module = parse_text(
        make_context(),
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%y = nn.relu %x : tensor<4xf32> -> tensor<4xf32>\nfunc.return %y : tensor<4xf32>\n}",
        "test",
    )
    executable = qmlir.compile(module, features=f"+{name}")
    assert executable.object
    assert executable.sizes.code > 0
    with pytest.raises(
        UnsupportedError, match=rf"runs on processors with all its features only, got .* without .*{name}"
    ):
        executable(np.zeros(4, np.float32))


# ---------------------------------------------------------------------------------------------------------------
# Other architectures and systems

TRIPLE = next(triple for triple in TRIPLES if triple != host_triple())
"""One that is not this machine's."""

ARM = "aarch64-unknown-linux-gnu"

other = pytest.mark.skipif(ARM == host_triple(), reason="code for this machine")


def test_the_triple_of_this_machine_is_none() -> None:
    assert Machine.of(triple=host_triple()) == Machine.host()
    assert Machine.of("native", "", host_triple()) == Machine.host()
    assert Machine.host().architecture == host_triple().partition("-")[0]


@other
@pytest.mark.parametrize("text", ["aarch64-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-pc-linux-gnu"])
def test_vendors_do_not_matter(text: str) -> None:
    machine = Machine.of(triple=text)
    assert machine == baseline(ARM) == Machine("generic", "", ARM)
    assert machine.architecture == "aarch64"
    assert machine.target_machine().triple == ARM


@other
@pytest.mark.parametrize(
    ("cpu", "features", "has", "lacks"),
    [
        (None, None, "neon fp-armv8", "dotprod i8mm avx2"),
        ("cortex-a53", None, "neon crc", "dotprod i8mm"),
        ("cortex-a53", "+dotprod", "neon crc dotprod", "i8mm"),
        ("cortex-a76", None, "neon dotprod lse", "i8mm sve"),
        ("cortex-a76", "-dotprod", "neon lse", "dotprod i8mm"),
        ("neoverse-n1", None, "neon dotprod", "i8mm sve"),
        ("neoverse-v1", None, "neon dotprod i8mm sve", "sse2"),
    ],
)
def test_features_of_another_architecture(cpu: str | None, features: str | None, has: str, lacks: str) -> None:
    machine = Machine.of(cpu, features, ARM)
    on = enabled(machine)
    assert on >= set(has.split())
    assert not on & set(lacks.split())
    assert set(beyond_baseline(machine)) == on - enabled(baseline(ARM))


@other
@pytest.mark.parametrize(
    ("cpu", "features", "triple", "message"),
    [
        (
            None,
            None,
            "hexagon-linux-gnu",
            "triple: must be x86_64-unknown-linux-gnu, aarch64-.* or wasm32-.*, got hexagon",
        ),
        (None, None, "xtensa-none-elf", r"triple: must be .*, got xtensa-none-elf"),
        (None, None, "armv7a-unknown-linux-gnueabihf", r"triple: must be .*, got armv7a-"),
        (None, None, "aarch64_be-unknown-linux-gnu", r"triple: must be .*, got aarch64_be-"),
        (None, "-m", "riscv32-unknown-elf", r"features: must leave on what every .* has \(generic-rv32\), got -m"),
        (None, None, "aarch64", r"triple: must be .*, got aarch64"),
        (None, None, "", r"triple: must be .*, got"),
        (None, None, "aarch64-linux-gna", r"triple: must be .*; did you mean aarch64-unknown-linux-gnu"),
        ("native", None, ARM, f"cpu: must be a processor that LLVM knows of {ARM}, got native"),
        ("cortex-a67", None, ARM, r"cpu: must be .*, got cortex-a67; did you mean cortex-a57"),
        ("znver3", None, ARM, f"cpu: must be a processor that LLVM knows of {ARM}, got znver3"),
        (None, "+dotprot", ARM, r"features: must be features that LLVM knows, got \+dotprot; did you mean \+dotprod"),
        (None, "+avx2", ARM, r"features: must be features that LLVM knows, got \+avx2"),
        ("cortex-a76", "-neon", ARM, r"features: must leave on what every .* of this architecture has \(generic\)"),
    ],
)
def test_triples_and_their_names_that_are_refused(
    cpu: str | None, features: str | None, triple: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Machine.of(cpu, features, triple)


@pytest.mark.parametrize(
    ("cpu", "triple", "has", "lacks"),
    [
        ("cortex-m4", "thumbv7em-none-eabi", "thumb2 dsp hwdiv vfp4d16sp", "mve neon fp64"),
        ("cortex-m7", "thumbv7em-none-eabi", "thumb2 dsp hwdiv fp64", "mve"),
        ("cortex-m55", "thumbv8.1m.main-none-eabi", "thumb2 dsp mve lob", "neon"),
        ("rv32imc", "riscv32-unknown-elf", "m c", "a f v"),
        ("rv64gc", "riscv64-unknown-linux-gnu", "m a f d c", "v"),
        ("rv64gcv", "riscv64-unknown-linux-gnu", "m a f d c v", "zba"),
        ("wasm32", "wasm32-unknown-unknown", "simd128", "relaxed-simd atomics"),
    ],
)
def test_processors_that_imply_a_system(cpu: str, triple: str, has: str, lacks: str) -> None:
    machine = Machine.of(cpu)
    assert machine.triple == triple
    assert machine == Machine.of(cpu, None, triple)
    assert machine.target_machine().triple == triple
    on = enabled(machine)
    assert on >= set(has.split())
    assert not on & set(lacks.split())
    assert machine.system.bits == (64 if "64" in triple else 32)
    assert described(machine).startswith(f"{triple}, processors like ")


def test_features_and_systems_of_such_processors() -> None:
    assert "vfp4d16sp" not in enabled(Machine.of("cortex-m4", "-vfp4d16sp"))
    assert Machine.of("cortex-m7", None, "thumbv7em-none-eabihf").triple == "thumbv7em-none-eabihf"
    assert {"zba", "v"} <= enabled(Machine.of("rv64gcv", "+zba"))
    with pytest.raises(OptionError, match=r"cpu: must be a processor that LLVM knows of riscv32-.*, got wasm32"):
        Machine.of("wasm32", None, "riscv32-unknown-elf")
    with pytest.raises(OptionError, match=r"cpu: must be .*, got cortex-m5; did you mean .*cortex-m"):
        Machine.of("cortex-m5")
    with pytest.raises(OptionError, match=r"features: must leave on what .*, got -m"):
        Machine.of("rv32imc", "-m")


def test_code_for_another_system_does_not_run_here() -> None:
    module = parse_text(
        make_context(),
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%y = nn.relu %x : tensor<4xf32> -> tensor<4xf32>\nfunc.return %y : tensor<4xf32>\n}",
        "test",
    )
    executable = qmlir.compile(module, triple=TRIPLE)
    assert executable.object[:4] == b"\x7fELF"
    assert executable.sizes.code > 0
    assert f'target triple = "{TRIPLE}"' in executable.llvm_ir
    assert "ret" in executable.assembly()
    with pytest.raises(UnsupportedError, match=rf"code for .*: runs on {TRIPLE} only, got {host_triple()}"):
        executable(np.zeros(4, np.float32))
