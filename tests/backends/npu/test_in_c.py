"""Programs run by the model in C: results, costs and faults as in Python, and what happens without a compiler."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu import execute
from qmlir.backends.npu.c_model import library
from qmlir.backends.npu.c_model.status import Status
from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.stream import Named, Port, Program, assemble, flat
from qmlir.devices import shipped_devices
from qmlir.errors import OptionError, QmlirError
from qmlir.isa.blocks import Fault
from qmlir.isa.encoding import Place
from tests.backends.npu.programs import ACC, ACT, DEVICE, Layer, image
from tests.backends.npu.test_compiled import compiled
from tests.backends.npu.test_compiled import image as network_image
from tests.backends.npu.test_simulate import _with_host

needs_compiler = pytest.mark.skipif(library.compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiles fast, as the tests run little."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "FAST", ("-O0",))
        yield


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("device", shipped_devices())
def test_a_network(device: str) -> None:
    samples = [network_image(seed) for seed in range(3)]
    in_c, in_python = (compiled(device).with_simulator(name) for name in ("c", "python"))
    theirs, ours = (exe.run_all(samples) for exe in (in_python, in_c))
    assert (in_c.simulated_by, in_python.simulated_by) == ("c", "python")
    assert all(np.array_equal(a, b) for a, b in zip(theirs, ours, strict=True))
    assert in_c.report == in_python.report == in_c.predicted


@needs_compiler
def test_what_is_prepared_is_not_compiled_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the model, nor what the host computes; so the time of a run is that of a run."""
    network = compiled("gemmini").with_simulator("c")
    made: list[str] = []
    build, native = library.build, network.native
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(library, "_kept", lambda _: None)
    monkeypatch.setattr(library, "build", lambda *given: made.append("model") or build(*given))
    monkeypatch.setattr(network, "native", lambda module: made.append("host") or native(module))
    simulated = network.with_program(network.program)
    assert simulated.program.routines
    simulated.prepare()
    compiled_before = list(made)
    assert compiled_before == ["model", *["host"] * len(simulated.program.routines)]
    results = simulated(network_image())
    assert made == compiled_before
    assert simulated.simulated_by == "c"
    assert np.array_equal(results, network.with_simulator("python")(network_image()))


@needs_compiler
def test_tensors_on_the_way() -> None:
    """A tensor is read behind the command that makes it, before another takes its place."""
    ports = {"conv": Port("conv", Place(ACC, 0), (6, 5, 8), "i32"), "y": Port("y", Place(ACT, 0x1000), (6, 5, 8), "i8")}
    text = Layer.random().text()
    clears = "store fill target=acc:0x0 size=960 rows=1 planes=1 target_row=0 target_plane=0 value=0 after post:2"
    named = (Named(ports["conv"], 6), Named(ports["y"], 8))
    program = replace(Layer.random().program(text.replace("exec end", f"{clears}\n exec end")), tensors=named)
    found: list[list[dict[str, np.ndarray]]] = []
    for name in ("c", "python"):
        found.append([])
        simulator = Simulator(program, DEVICE, simulator=name)
        simulator.run_all([(image(seed),) for seed in range(3)], found[-1])
        assert simulator.by == name
    for a, b in zip(*found, strict=True):
        assert a.keys() == b.keys() == ports.keys()
        assert all(np.array_equal(a[key], b[key]) for key in a)
        assert a["conv"].any()


@needs_compiler
def test_with_the_host() -> None:
    halves = {"halves": lambda y: [y.astype(np.float32) / 2]}
    in_c, in_python = (Simulator(_with_host(), DEVICE, halves, name) for name in ("c", "python"))
    samples = [(image(seed),) for seed in range(5)]
    assert all(np.array_equal(a, b) for a, b in zip(in_c.run_all(samples), in_python.run_all(samples), strict=True))
    assert in_c.report == in_python.report
    assert in_c.by == "c"
    with pytest.raises(Fault, match="must call a routine that the host has, got halves"):
        Simulator(_with_host(), DEVICE, {}, "c").run(image())
    for kind, wrong in (("must be given 1 inputs, got 0", ()), ("must be int8", (image().astype(np.int16),))):
        with pytest.raises(Fault, match=kind):
            in_c.run(*wrong)


WRONG = {
    "contract=4 input_zero_point=0": (
        "contract=1 input_zero_point=-2147483648",
        "contract double needs accumulators within",
    ),
    "step=requantize": ("step=lookup", "must read what was written before|must stay|a table must be looked up"),
    "data=act:0x0": ("data=act:0x800", "must read what was written before"),
    "target=act:0x1000": ("target=act:0x1008", "must read what was written before|must wait for"),
}


@needs_compiler
@pytest.mark.parametrize("right", WRONG)
def test_faults_have_the_same_words(right: str) -> None:
    """What the data do wrong the model finds; the sentence is that of the simulator in Python, with its command."""
    wrong, words = WRONG[right]
    text = Layer.random().text().replace(right, wrong)
    said: list[str] = []
    for name in ("c", "python"):
        with pytest.raises(Fault, match=words) as caught:
            Simulator(Layer.random().program(text), DEVICE, simulator=name).run(image())
        said.append(str(caught.value))
    assert said[0] == said[1]


@needs_compiler
def test_a_fault_of_the_data() -> None:
    """An accumulator that a contract does not take: the model says so, and Python names the command."""
    layer = Layer.random()
    trapping = DEVICE.with_({"array.overflow": "trap"})
    extreme = Layer(layer.weights, np.full(8, 2**31 - 1, np.int32))
    program = extreme.program(None, trapping)
    for name in ("c", "python"):
        with pytest.raises(Fault, match=r"^command 5, exec convolve .*sums must fit 32 bits, got 21474"):
            Simulator(program, trapping, simulator=name).run(image())


@needs_compiler
def test_a_fault_in_c_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that finds what Python does not is wrong, and says so instead of giving Python's result."""
    monkeypatch.setattr(library.Library, "run", lambda *_: Status.SUM)
    with pytest.raises(Fault, match="must be executed alike in C and in Python, got a fault in C alone: a sum beyond"):
        Simulator(Layer.random().program(), DEVICE, simulator="c").run(image())
    simulator = Simulator(Layer.random().program(), DEVICE, simulator="python")
    assert np.array_equal(simulator.run(image())[0], Layer.random().expected(image()))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "COMPILERS", ("no-such-compiler",))
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(execute, "WORTH", 0)
    with pytest.raises(QmlirError, match="must have a C compiler, got none of no-such-compiler; install one, or"):
        Simulator(Layer.random().program(), DEVICE, simulator="c").run(image())
    simulator = Simulator(Layer.random().program(), DEVICE)
    assert np.array_equal(simulator.run(image())[0], Layer.random().expected(image()))
    assert simulator.by == "python"


@needs_compiler
def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "FLAGS", ("--no-such-flag",))
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(execute, "WORTH", 0)
    with pytest.raises(QmlirError, match=r"must compile it, got .*no-such-flag"):
        Simulator(Layer.random().program(), DEVICE, simulator="c").run(image())
    simulator = Simulator(Layer.random().program(), DEVICE)
    simulator.run(image())
    assert simulator.by == "python"


@needs_compiler
def test_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled once; another process loads it, and short runs use it then, too."""
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "_LOADED", {})
    short = Simulator(Layer.random().program(), DEVICE)
    short.run(image())
    assert short.by == "python"
    assert not library.is_built(DEVICE)
    library.library(DEVICE)
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(library, "build", lambda *_: pytest.fail("compiled again"))
    assert library.is_built(DEVICE)
    short.run(image())
    assert short.by == "c"
    assert kept.name.endswith(".so.qmlir")


def test_an_unknown_simulator() -> None:
    with pytest.raises(OptionError, match="must be one of auto, c, python, got 'fortran'"):
        compiled("nmp").with_simulator("fortran")


OVERLAPS = [
    ("target=act:0x1000", "target=acc:0x8", "must not write its target over its source"),
    ("target_row=40", "target_row=32", "must write each byte of its target once"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), OVERLAPS)
def test_results_over_operands(right: str, wrong: str, words: str) -> None:
    text = Layer.random().text()
    assert right in text
    with pytest.raises(Fault, match=words):
        Simulator(Layer.random().program(text.replace(right, wrong)), DEVICE)


IN_PLACE = """
    load fill target=act:0x0 size=64 rows=1 planes=1 target_row=0 target_plane=0 value=3
    load move source=act:0x0 target=act:0x0 size=64 rows=1 planes=1 source_row=0 source_plane=0 target_row=0 \
target_plane=0
    exec end status=0
"""


def test_an_element_in_the_place_of_its_operand() -> None:
    device = DEVICE.with_({"queue.load.from": ["dram", "act"]})
    assert Simulator(Program(flat(device), assemble(IN_PLACE, device)), device).run() == []
