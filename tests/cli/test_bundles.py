"""`qmlir compile --bundle`: programs in C and C++ around bundles, built and run; what bundles are refused for."""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import qmlir
from qmlir.backends.cpu import jit
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.cli.documents import schema
from qmlir.errors import OptionError, UnsupportedError
from qmlir.settings.quant_config import QuantConfig
from tests.cli.small import Small, run, write_small
from tests.conftest import crossed

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
LANGUAGES = {"C99": ("gcc", "-std=c99"), "C++17": ("g++", "-x", "c++", "-std=c++17")}

STARTUP = """\
#include <stdint.h>
extern int main(void);
extern uint32_t stack_top;
static void leave(int status) {
  uint32_t block[2];
  register uint32_t r0 __asm__("r0") = 0x20;
  register uint32_t *r1 __asm__("r1") = block;
  block[0] = 0x20026;
  block[1] = (uint32_t)status;
  __asm__ volatile("bkpt 0xab" : : "r"(r0), "r"(r1) : "memory");
}
static void reset(void) {
  leave(main());
  for (;;) {}
}
__attribute__((section(".vectors"), used)) static const void *const vectors[] = {&stack_top, (void *)reset};
"""

BOARD = """\
MEMORY { FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 1M  RAM (rw) : ORIGIN = 0x20000000, LENGTH = 256K }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > FLASH
  .data : { *(.data*) *(.bss*) *(COMMON) } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""

PAINTED = """\
#define _GNU_SOURCE
#include <ucontext.h>
#include <stdio.h>
#include <string.h>
#include "net.h"
static unsigned char stack[1 << 16];
static ucontext_t back, other;
static const float image[NET_INPUT0_ELEMENTS];
static float scores[NET_OUTPUT0_ELEMENTS];
static void nothing(void) {}
static void network(void) { net_run(image, scores); }
static long used(void (*function)(void)) {
  long i = 0;
  memset(stack, 0xa5, sizeof stack);
  getcontext(&other);
  other.uc_stack.ss_sp = stack;
  other.uc_stack.ss_size = sizeof stack;
  other.uc_link = &back;
  makecontext(&other, function, 0);
  swapcontext(&back, &other);
  while (stack[i] == 0xa5) ++i;
  return (long)sizeof stack - i;
}
int main(void) {
  used(nothing);
  printf("%ld %ld %d\\n", used(nothing), used(network), NET_STACK_SIZE);
  return 0;
}
"""

TWO = """\
#include <pthread.h>
#include "one.h"
#include "two.h"
int one_selftest(void);
int two_selftest(void);
static void *of_one(void *unused) {
  long i, failed = 0;
  for (i = 0; i < 200; ++i) failed += one_selftest();
  (void)unused;
  return (void *)failed;
}
static void *of_two(void *unused) {
  long i, failed = 0;
  for (i = 0; i < 200; ++i) failed += two_selftest();
  (void)unused;
  return (void *)failed;
}
int main(void) {
  pthread_t first, second;
  void *a, *b;
  int i;
  for (i = 0; i < 3; ++i)
    if (one_selftest() || two_selftest()) return 1;
  if (pthread_create(&first, 0, of_one, 0) || pthread_create(&second, 0, of_two, 0)) return 2;
  pthread_join(first, &a);
  pthread_join(second, &b);
  return a || b ? 3 : 0;
}
"""

SAME = """\
#include <pthread.h>
#include <string.h>
#include "net.h"
#include "net_vectors.h"
typedef struct {
  NET_ALIGNED uint8_t arena[NET_ARENA_SIZE + 1];
  uint8_t scores[NET_OUTPUT0_ELEMENTS];
  long failed;
} Own;
static Own one, two;
static void *calls(void *argument) {
  Own *own = argument;
  long i;
  for (i = 0; i < 3000; ++i) {
    const void *inputs[] = {net_input0 + i % NET_SAMPLES * NET_INPUT0_ELEMENTS};
    void *outputs[] = {own->scores};
    net(net_weights, own->arena, inputs, outputs);
    own->failed += memcmp(own->scores, net_output0 + i % NET_SAMPLES * NET_OUTPUT0_ELEMENTS, NET_OUTPUT0_ELEMENTS) != 0;
  }
  return 0;
}
int main(void) {
  pthread_t first, second;
  if (pthread_create(&first, 0, calls, &one) || pthread_create(&second, 0, calls, &two)) return 2;
  pthread_join(first, 0);
  pthread_join(second, 0);
  return one.failed || two.failed;
}
"""


def tool(name: str) -> str:
    """The path of a program; the test is skipped where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("bundles"))
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "net.mlir") == 0
    return small


def bundle(small: Small, folder: Path, *options: object) -> Path:
    assert run("compile", small / "net.mlir", "--bundle", "-o", folder, *options) == 0
    return folder


def build(folder: Path, language: Sequence[str], source: str, *files: str) -> Path:
    """Builds a program of a bundle, its source in a language and without a warning."""
    program = folder / f"{source}.out"
    compiler = tool(language[0])
    subprocess.run([compiler, *language[1:], *STRICT, "-c", source, "-o", f"{source}.o"], cwd=folder, check=True)
    command = [tool("gcc"), "-Wl,--fatal-warnings", "-o", program.name, f"{source}.o", *files]
    subprocess.run(command, cwd=folder, check=True)
    return program


def status(program: Path) -> int:
    return subprocess.run([program], check=False).returncode


def spoil(folder: Path) -> None:
    """Changes a bit of what the first sample has to give."""
    vectors = folder / "net_vectors.h"
    before, numbers = vectors.read_text().split("net_output0[", 1)
    first = numbers.index("{\n") + 2
    value, rest = numbers[first:].split(",", 1)
    vectors.write_text(f"{before}net_output0[{numbers[:first]}{int(value) ^ 1},{rest}")


def pointer_to_weights(folder: Path, name: str) -> str:
    """Writes a source file that holds the weights of a file, as a program that links them in has it."""
    data = ",".join(map(str, (folder / f"{name}.weights.bin").read_bytes()))
    held = f"static const uint8_t data[] __attribute__((aligned(64))) = {{{data}}};"
    text = f"#include <stdint.h>\n{held}\nconst uint8_t *{name}_weights = data;\n"
    (folder / "data.c").write_text(text)
    return "data.c"


@pytest.mark.slow
@crossed(
    {
        "api, weights": [
            ("static", "object"),
            ("static", "array"),
            ("static", "file"),
            ("dynamic", "object"),
            ("dynamic", "file"),
            ("glow", "file"),
        ],
        "language": LANGUAGES,
    }
)
def test_selftest_and_example_build_and_run(
    small: Small, tmp_path: Path, api: str, weights: str, language: str
) -> None:
    folder = bundle(small, tmp_path / "out", "--api", api, "--weights-in", weights, "--io", "int8")
    files = ["net.o"]
    if weights == "array":
        files.append("net_weights.c")
    if weights == "file":
        files.append(pointer_to_weights(folder, "net"))
    assert status(build(folder, LANGUAGES[language], "selftest.c", *files)) == 0
    assert status(build(folder, LANGUAGES[language], "main.c", *files)) == 0


@pytest.mark.slow
def test_a_selftest_counts_the_samples_that_differ(small: Small, tmp_path: Path) -> None:
    folder = bundle(small, tmp_path / "out")
    spoil(folder)
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", "net.o")) == 1


@pytest.mark.slow
def test_a_library_is_linked_like_its_object(small: Small, tmp_path: Path) -> None:
    folder = bundle(small, tmp_path / "out", "--archive", "--prefix", "a_name_of_more_than_15_letters")
    library = "liba_name_of_more_than_15_letters.a"
    assert not list(folder.glob("*.o"))
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", library)) == 0
    listed = subprocess.run([tool("nm"), "-s", library], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "a_name_of_more_than_15_letters_run in" in listed


@pytest.mark.slow
def test_cmake_builds_and_tests_a_bundle(small: Small, tmp_path: Path) -> None:
    cmake = tool("cmake")
    folder = bundle(small, tmp_path / "out", "--weights-in", "array")
    subprocess.run([cmake, "-S", folder, "-B", tmp_path / "build"], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path / "build"], check=True, capture_output=True)
    assert status(tmp_path / "build" / "net_selftest") == 0
    assert status(tmp_path / "build" / "net_example") == 0


@pytest.mark.slow
def test_two_networks_in_one_program_and_from_two_threads(small: Small, tmp_path: Path) -> None:
    gcc = tool("gcc")
    objects: list[str] = []
    for name, options in (("one", ("--io", "int8")), ("two", ("--io", "float"))):
        folder = bundle(small, tmp_path / name, "--prefix", name, *options)
        source = [gcc, "-std=c99", *STRICT, "-DQMLIR_NO_MAIN", "-c", "selftest.c", "-o", f"../{name}_selftest.o"]
        subprocess.run(source, cwd=folder, check=True)
        objects += [f"{name}/{name}.o", f"{name}_selftest.o"]
    (tmp_path / "two.c").write_text(TWO)
    command = [gcc, "-Ione", "-Itwo", "-o", "two.out", "two.c", *objects, "-pthread"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert status(tmp_path / "two.out") == 0


def test_one_network_from_two_threads_in_memory_of_the_callers(small: Small, tmp_path: Path) -> None:
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--api", "dynamic", "--io", "int8")
    (folder / "same.c").write_text(SAME)
    command = [tool("gcc"), "-std=c11", *STRICT, "-o", "same", "same.c", "net.o", "-pthread"]
    subprocess.run(command, cwd=folder, check=True)
    assert status(folder / "same") == 0


@pytest.mark.parametrize("cpu", [cpu for cpu in PROCESSORS if cpu != "wasm32"])
def test_no_object_asks_for_an_executable_stack(small: Small, tmp_path: Path, cpu: str) -> None:
    """Linkers take a stack that holds code for wanted, and warn of it, unless each object says otherwise."""
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--cpu", cpu, "--io", "int8")
    listed = subprocess.run([tool("readelf"), "-SW", folder / "net.o"], check=True, capture_output=True, text=True)
    (line,) = (line for line in listed.stdout.splitlines() if ".note.GNU-stack" in line)
    assert "X" not in line.split(".note.GNU-stack")[1]


@pytest.mark.slow
def test_the_stack_is_no_deeper_than_stated(small: Small, tmp_path: Path) -> None:
    """A painted stack shows how deep a call went; a call of nothing, what the switch to it took."""
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--cpu", "x86-64-v3")
    (folder / "painted.c").write_text(PAINTED)
    subprocess.run([tool("gcc"), "-o", "painted", "painted.c", "net.o"], cwd=folder, check=True)
    printed = subprocess.run([folder / "painted"], check=True, capture_output=True, text=True).stdout
    nothing, network, stated = map(int, printed.split())
    assert 0 < network - nothing <= stated + 32  # the frame of the function that calls the network
    assert stated <= 1024


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_an_object_with_integers_at_both_ends_has_no_floats(small: Small, tmp_path: Path, cpu: str) -> None:
    """On x86 without AVX2, LLVM shifts lanes by conversions from floats unless they have 64 bits."""
    folder = bundle(small, tmp_path / "out", "--io", "int8", "--cpu", cpu)
    assert run("certify", folder / "net.o", "-o", tmp_path / "certificate.json") == 0
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert certificate["verdict"] == "integer-only"
    assert [code["floats"] for code in certificate["code"]] == [[]]
    assert run("certify", "--check", tmp_path / "certificate.json", folder / "net.o") == 0


@pytest.mark.slow
def test_the_manifest_says_what_is_in_the_folder(small: Small, tmp_path: Path) -> None:
    folder = bundle(small, tmp_path / "out", "--io", "uint8", "--cpu", "cortex-m4")
    manifest = json.loads((folder / "manifest.json").read_text())
    Draft202012Validator(schema()).validate(manifest)
    hashes = {file["name"]: (file["sha256"], file["bytes"]) for file in manifest["files"]}
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    assert hashes == {name: (sha256(data).hexdigest(), len(data)) for name, data in there.items()}
    assert manifest["processor"]["triple"] == "thumbv7em-none-eabi"
    assert manifest["processor"]["libraries"] == []
    (image,), (scores,) = manifest["inputs"], manifest["outputs"]
    signature = qmlir.compile(small / "net.mlir", io="uint8").signature
    for port, spec in ((image, signature.inputs[0]), (scores, signature.outputs[0])):
        assert (port["name"], port["type"], port["shape"]) == (spec.name, "uint8", list(spec.shape))
        assert (port["scale"], port["zero_point"]) == spec.quantization
    assert manifest["numerics"] == {"runtime": "default", "contracts": ["single"]}
    assert manifest["quantizer"] is not None
    assert {**QuantConfig().options(), "recipe": "none", "rules": []} == {
        k.replace("-", "_"): v for k, v in manifest["quantizer"].items()
    }
    sizes = manifest["sizes"]
    assert sizes["arena_bound"] <= sizes["arena"]
    assert sizes["stack"] <= 1024
    header = (folder / "net.h").read_text()
    assert f"#define NET_ARENA_SIZE {sizes['arena']} " in header
    assert f"#define NET_STACK_SIZE {sizes['stack']} " in header
    assert f"#define NET_INPUT0_ZERO_POINT ({image['zero_point']})" in header


@pytest.mark.slow
def test_the_manifest_says_how_the_network_was_quantized(small: Small, tmp_path: Path) -> None:
    rules = [{"name": "dense1", "precision": "int16"}, {"name": "image", "range": [-1.0, 1.0]}]
    quantized = qmlir.quantize(
        small.onnx,
        data=[{"image": small.samples[:1]}],
        schema="symmetric",
        calibration="percentile-99.9",
        policy={"default": {"per-channel": False}, "rules": rules},
    )
    qmlir.save(quantized, tmp_path / "net.mlir")
    for network in (quantized, tmp_path / "net.mlir"):
        files = qmlir.bundle(network, tmp_path / "out", prefix="net")
        found = json.loads(files[0].read_text())["quantizer"]
        assert (found["schema"], found["calibration"], found["per-channel"]) == ("symmetric", "percentile-99.9", False)
        assert found["rules"] == rules


@pytest.mark.slow
def test_the_manifest_of_a_network_that_others_quantized(small: Small, tmp_path: Path) -> None:
    quantized = qmlir.quantize(small.onnx, data=[{"image": small.samples[:1]}], schema="symmetric")
    (file,) = qmlir.export(quantized, tmp_path / "net.onnx", activations="kept")
    for network in (file, qmlir.quantize(file)):
        manifest = json.loads(qmlir.bundle(network, tmp_path / "out", prefix="net")[0].read_text())
        assert manifest["quantizer"] is None
        Draft202012Validator(schema()).validate(manifest)


@pytest.mark.slow
def test_python_writes_the_same_bundle(small: Small, tmp_path: Path) -> None:
    options = ("--cpu", "x86-64-v3", "--io", "int8", "--api", "dynamic", "--weights-in", "array", "--archive")
    folder = bundle(small, tmp_path / "command", "--prefix", "seen", *options)
    files = qmlir.bundle(
        small / "net.mlir", tmp_path / "python", prefix="seen", archive=True,
        cpu="x86-64-v3", io="int8", api="dynamic", weights_in="array",
    )  # fmt: skip
    assert files[0].name == "manifest.json"
    assert {path.name for path in files} == {path.name for path in folder.iterdir()}
    for path in files:
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_python_writes_a_bundle_of_a_network_that_it_holds(small: Small, tmp_path: Path) -> None:
    module = qmlir.load(small / "net.mlir")
    before = str(module)
    folder = tmp_path / "held"
    qmlir.bundle(module, folder, cpu="x86-64-v3", io="int8")
    assert str(module) == before
    manifest = json.loads((folder / "manifest.json").read_text())
    Draft202012Validator(schema()).validate(manifest)
    assert manifest["model"]["file"] is None
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", "held.o")) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"api": "fast"}, "api: must be one of static, dynamic, glow"),
        ({"weights_in": "flash"}, "weights_in: must be one of object, array, file"),
        ({"prefix": "int"}, "prefix: must be an identifier of C"),
        ({"memory": "tiny"}, "memory: must be one of fast, small"),
        ({"archive": 1}, "archive: must be True or False"),
        ({"cpu": "cortex-m9"}, "cpu: must be"),
    ],
)
def test_python_refuses_what_it_cannot_write(small: Small, tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        qmlir.bundle(small / "net.mlir", tmp_path / "out", **given)  # pyright: ignore
    assert not (tmp_path / "out").exists()


def test_code_of_a_bundle_is_generated_once(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object with the bundle's functions; none of the network by itself."""
    monkeypatch.setattr(jit, "compile_object", None)
    assert (bundle(small, tmp_path) / "net.o").exists()


def test_batches_are_refused(small: Small, tmp_path: Path) -> None:
    module = qmlir.Pipeline(("batch-samples", {"most": 3}))(qmlir.load(small / "net.mlir"))
    with pytest.raises(UnsupportedError, match="must take one sample a call in a bundle, got up to 3; make it of the"):
        qmlir.bundle(module, tmp_path / "out")


@pytest.mark.slow
def test_equal_bundles_have_equal_bytes(small: Small, tmp_path: Path) -> None:
    one, other = (bundle(small, tmp_path / name) for name in ("one", "other"))
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_a_program_for_aarch64_runs_under_an_emulator(small: Small, tmp_path: Path) -> None:
    gcc, emulator = tool("aarch64-linux-gnu-gcc"), tool("qemu-aarch64")
    folder = bundle(small, tmp_path / "out", "--triple", "aarch64-linux-gnu", "--io", "int8")
    command = [gcc, "-static", "-std=c99", *STRICT, "-o", "selftest", "selftest.c", "net.o"]
    subprocess.run(command, cwd=folder, check=True)
    assert subprocess.run([emulator, folder / "selftest"], check=False).returncode == 0


ASKING = '#include "net.h"\nint main(void) { return net_runs_here(); }\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "features", "processor", "runs"),
    [
        ("cortex-a76", None, "cortex-a76", True),
        ("cortex-a76", None, "cortex-a53", False),
        ("generic", "+i8mm", "neoverse-n2", True),
        ("generic", "+i8mm", "cortex-a76", False),
        ("cortex-a53", None, "cortex-a53", True),
    ],
)
def test_linux_is_asked_what_the_processor_has(
    small: Small, tmp_path: Path, cpu: str, features: str | None, processor: str, *, runs: bool
) -> None:
    gcc, emulator = tool("aarch64-linux-gnu-gcc"), tool("qemu-aarch64")
    options = ["--triple", "aarch64-linux-gnu", "--cpu", cpu, *(["--features", features] if features else [])]
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--io", "int8", *options)
    (folder / "asking.c").write_text(ASKING)
    subprocess.run([gcc, "-static", "-std=c99", *STRICT, "-o", "asking", "asking.c", "net.o"], cwd=folder, check=True)
    done = subprocess.run([emulator, "-cpu", processor, folder / "asking"], check=False)
    assert done.returncode == runs


@pytest.mark.slow
def test_the_vectors_of_riscv_are_asked_for(small: Small, tmp_path: Path) -> None:
    for cpu, asked in (("rv64gcv", f"AT_HWCAP) & 0x{1 << 21:x}UL"), ("rv64gc", None), ("cortex-m55", None)):
        header = (bundle(small, tmp_path / cpu, "--prefix", "net", "--io", "int8", "--cpu", cpu) / "net.h").read_text()
        assert (asked in header) if asked else ("runs_here" not in header)


@pytest.mark.parametrize("right", [True, False])
def test_a_program_for_cortex_m4_runs_on_an_emulated_board(small: Small, tmp_path: Path, *, right: bool) -> None:
    """The program starts from the vector table of a board without a system, and has no library."""
    gcc, emulator = tool("arm-none-eabi-gcc"), tool("qemu-system-arm")
    folder = bundle(small, tmp_path / "out", "--cpu", "cortex-m4", "--io", "int8")
    if not right:
        spoil(folder)
    (folder / "start.c").write_text(STARTUP)
    (folder / "board.ld").write_text(BOARD)
    command = [gcc, "-mcpu=cortex-m4", "-mthumb", "-O1", "-ffreestanding", "-nostdlib", "-T", "board.ld"]
    subprocess.run([*command, "-o", "net.elf", "start.c", "selftest.c", "net.o"], cwd=folder, check=True)
    board = [emulator, "-M", "mps2-an386", "-nographic", "-semihosting-config", "enable=on,target=native"]
    done = subprocess.run([*board, "-kernel", folder / "net.elf"], check=False, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == (0 if right else 1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--prefix", "int"), "--prefix: must be an identifier of C"),
        (("--prefix", "a-b"), "--prefix: must be an identifier of C"),
        (("--threads", "2"), "--threads: is not for bundles"),
        (("--batch", "2"), "--batch: is not for bundles"),
        (("--emit", "asm"), "--emit: is not for bundles"),
        (("--api", "glow", "--weights-in", "object"), "--weights-in: must be file with --api glow"),
    ],
)
def test_what_bundles_do_not_take(
    small: Small, tmp_path: Path, options: Sequence[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compile", small / "net.mlir", "--bundle", "-o", tmp_path / "out", *options) == 1
    assert error in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_options_of_bundles_need_a_bundle(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--prefix", "x"), ("--archive",), ("--api", "glow"), ("--weights-in", "array"), ("--layers",)):
        assert run("compile", small / "net.mlir", "-o", tmp_path / "net.o", *option) == 1
        assert f"{option[0]}: is for bundles" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("something")
    assert run("compile", small / "net.mlir", "--bundle", "-o", tmp_path / "out") == 1
    assert "must be a folder" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "something"
    assert run("compile", small / "net.mlir", "--bundle", "-o", tmp_path / "net.o") == 1
    assert "--output: must be a folder with --bundle" in capsys.readouterr().err


@pytest.mark.slow
def test_floats_that_need_a_library_are_refused(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every x86-64 processor computes with floats, but only later ones round them; Cortex-M4 may have no floats."""
    for cpu, function in (("x86-64", "roundeven"), ("cortex-m4", "__unorddf2")):
        assert run("compile", small / "net.mlir", "--bundle", "--cpu", cpu, "-o", tmp_path / "out") == 1
        error = capsys.readouterr().err
        assert "must call no function of a library" in error
        assert function in error
        assert "--io" in error
        assert run("compile", small / "net.mlir", "--bundle", "--cpu", cpu, "--io", "int8", "-o", tmp_path / "out") == 0
        capsys.readouterr()


def test_integers_of_the_interface_have_the_bits_of_floats(small: Small) -> None:
    module = small / "net.mlir"
    floats, integers = qmlir.compile(module), qmlir.compile(module, io="int8", memory="small")
    (image,), (scores,) = integers.signature.inputs, integers.signature.outputs
    assert image.quantization is not None
    assert scores.quantization is not None
    for sample in small.samples:
        x = np.clip(np.rint(sample[None] / np.float64(image.quantization[0])) + image.quantization[1], -128, 127)
        y = integers(x.astype(np.int8)).astype(np.float64)
        given = ((y - scores.quantization[1]) * scores.quantization[0]).astype(np.float32)
        np.testing.assert_array_equal(given, floats(sample[None]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_dscnn_i8", "resnet8_cifar_i8", "ad_fcae_i8"])
def test_the_networks_of_mlperf_tiny_as_bundles(name: str, shared: Callable[[str], Path], tmp_path: Path) -> None:
    gcc = tool("gcc")
    model = shared(f"models/tflite/{name}.tflite")
    folder = tmp_path / "out"
    assert run("compile", model, "--bundle", "--prefix", "net", "--cpu", "x86-64-v3", "-o", folder) == 0
    subprocess.run([gcc, "-std=c99", *STRICT, "-o", "selftest", "selftest.c", "net.o"], cwd=folder, check=True)
    assert status(folder / "selftest") == 0
    assert json.loads((folder / "manifest.json").read_text())["sizes"]["stack"] <= 1024
