"""Work and memory of an import are in proportion to the model: counted in calls and bytes, not in seconds."""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import pytest

from qmlir.compiler import Pipeline, load, save
from qmlir.errors import FileError, NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.budget import BUDGET
from qmlir.ir.interfaces import Array
from qmlir.stages import IMPORTED
from tests.frontends.onnx.agreement import FLOAT, agree, floats, kinds, model, node, reason


def chain(count: int, operators: tuple[str, ...]) -> onnx.ModelProto:
    nodes = [node(operators[i % len(operators)], f"t{i}", f"t{i + 1}", name=f"node_{i}") for i in range(count)]
    return model(nodes, {"t0": [2, 2]}, outputs=[f"t{count}"])


def sums(count: int) -> onnx.ModelProto:
    constants: dict[str, Array] = {f"c{i}": np.array([i, 1], np.float32) for i in range(count)}
    nodes = [node("Add", f"t{i} c{i}", f"t{i + 1}") for i in range(count)]
    return model(nodes, {"t0": [2]}, constants, outputs=[f"t{count}"])


def fan(count: int) -> onnx.ModelProto:
    nodes = [node("Identity", "x", f"t{i}") for i in range(count)]
    return model([*nodes, node("Concat", " ".join(f"t{i}" for i in range(count)), axis=0)], {"x": [2]})


GRAPHS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "identities": lambda n: chain(n, ("Identity",)),
    "functions": lambda n: chain(n, ("Sin", "Sigmoid")),
    "transposes": lambda n: chain(n, ("Transpose", "Relu", "Transpose", "Sin")),
    "sums that fall together": sums,
    "names of one value": fan,
}


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    count = 0

    def event(frame: object, kind: str, argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_work_grows_with_the_nodes(graph: str) -> None:
    def work(count: int) -> int:
        proto = GRAPHS[graph](count)
        return calls(lambda: Pipeline(*IMPORTED)(load_onnx(proto)))

    work(4)  # imports modules
    few, many = work(75), work(300)
    assert many < 4.4 * few


def peak(proto: onnx.ModelProto, **options: Any) -> tuple[int, list[str]]:
    """The most bytes that an import takes, and the operations that it ends with."""
    most, module = peak_of(lambda: Pipeline(*IMPORTED)(load_onnx(proto, **options)))
    return most, kinds(module)


Result = TypeVar("Result")


def peak_of(work: Callable[[], Result]) -> tuple[int, Result]:
    """The most bytes that a piece of work takes, and its result."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def doublings(count: int) -> onnx.ModelProto:
    """x + the sum of 4 · 2^count numbers, which a chain of concats makes of 4."""
    nodes = [node("Concat", f"c{i} c{i}", f"c{i + 1}", axis=0) for i in range(count)]
    nodes += [node("ReduceSum", f"c{count}", "s", keepdims=0), node("Add", "x s")]
    return model(nodes, {"x": [1]}, {"c0": floats(4)})


def test_a_chain_of_concats_stays_within_the_budget() -> None:
    """In the budget the chain is computed at import, beyond it the concats stay."""
    found = kinds(load_onnx(doublings(20), fold_budget=1 << 20))
    assert found == [*["nn.concat"] * 5, "nn.reduce_sum", "nn.reshape", "nn.add"]
    assert kinds(load_onnx(doublings(10), fold_budget=1 << 20)) == ["nn.add"]


def test_simplifying_stays_within_the_same_budget(tmp_path: Path) -> None:
    """The module says it, also in a file; without it all concats fall together."""
    onnx.save(doublings(20), tmp_path / "net.onnx")
    small = load(tmp_path / "net.onnx", fold_budget=1 << 20)
    save(small, tmp_path / "net.mlir")
    for module in (small, load(tmp_path / "net.mlir")):
        assert "nn.concat" in kinds(Pipeline(*IMPORTED)(module))
    for module in (load(tmp_path / "net.onnx"), load(tmp_path / "net.mlir", fold_budget=BUDGET // 2)):
        assert kinds(Pipeline(*IMPORTED)(module)) == ["nn.add"]


@pytest.mark.parametrize("budget", [0, BUDGET])
def test_a_lack_of_memory_at_import_names_the_operation_and_the_budget(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where constants are computed, by the fold of an operator or by its operation."""

    def lacks(*arguments: Any, **named: Any) -> Any:
        raise MemoryError

    proto = doublings(4)
    monkeypatch.setattr(np, "concatenate", lacks)
    with pytest.raises(NodeError, match=r"oncat.*needs more memory than there is.*--fold-budget"):
        Pipeline(*IMPORTED)(load_onnx(proto, fold_budget=budget))


def test_a_constant_of_one_value_stays_small() -> None:
    """2^28 elements: a billion bytes."""
    nodes = [node("ConstantOfShape", "shape", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")]
    most, found = peak(model(nodes, {"x": [1]}, {"shape": np.array([1 << 28])}))
    assert found[0] == "nn.broadcast"
    assert most < 20 << 20


def test_masks_of_large_tensors_stay_small() -> None:
    nodes = [node("Dropout", "x", "d mask"), node("Cast", "mask", "m", to=FLOAT), node("Add", "d m")]
    most, _ = peak(model(nodes, {"x": [1 << 28]}))
    assert most < 20 << 20


def test_a_transposed_convolution_of_a_large_stride() -> None:
    """Its phases would be 2^28 convolutions, all but one of zeros: the zeros go into the image."""
    proto = model(
        node("ConvTranspose", "x w", strides=[1 << 14, 1 << 14]), {"x": [1, 1, 2, 2]}, {"w": floats(1, 1, 1, 1)}
    )
    most, found = peak(proto)
    assert "nn.pad" in found
    assert most < 20 << 20
    agree(model(node("ConvTranspose", "x w", strides=[6, 5]), {"x": [1, 1, 3, 2]}, {"w": floats(1, 2, 1, 1)}))


@pytest.mark.parametrize("shape", [[1 << 32, 1 << 32], [1 << 62, 2], [(1 << 40) + 1]])
def test_an_input_that_no_memory_holds(shape: list[int]) -> None:
    with pytest.raises(FileError, match=r'input "x" must fit into a memory, got a tensor of shape .* more than 2\^40'):
        load_onnx(model(node("Relu", "x"), {"x": shape}))


def test_a_result_that_no_memory_holds() -> None:
    proto = model(node("Expand", "x s"), {"x": [1]}, {"s": np.array([1 << 31, 1 << 31])})
    assert "has more than 2^40 elements" in reason(proto)


def test_the_budget_is_for_all_constants_together() -> None:
    """Eight tables of 2^15 indices, of which each takes a megabyte while it is made."""
    nodes = [node("Trilu", "x", f"t{i}") for i in range(8)]
    proto = model([*nodes, node("Sum", " ".join(f"t{i}" for i in range(8)))], {"x": [128, 256]})
    assert opaque_report(load_onnx(proto, fold_budget=8 << 20)) == []
    (refused,) = opaque_report(load_onnx(proto, fold_budget=4 << 20))
    assert refused.count == 4
    assert "--fold-budget, or fold_budget in Python, gives them more" in refused.reason


def test_a_computed_constant_is_not_copied_into_the_network() -> None:
    most, _ = peak(concats())
    assert most < 20 << 20


def concats() -> onnx.ModelProto:
    """A chain of 16 MiB in all, whose last constant of 8 MiB the network holds."""
    nodes = [node("Concat", f"c{i} c{i}", f"c{i + 1}", axis=0) for i in range(19)]
    return model(nodes, {}, {"c0": floats(4)}, outputs=["c19"])


def test_weights_are_written_without_a_copy_of_them(tmp_path: Path) -> None:
    module = Pipeline(*IMPORTED)(load_onnx(concats()))
    most, _ = peak_of(lambda: save(module, tmp_path / "net.mlir"))
    assert (tmp_path / "net.safetensors").stat().st_size > 8 << 20
    assert most < 1 << 20


def test_functions_of_constants_are_computed_in_blocks() -> None:
    """A correctly rounded sine holds a dozen arrays of 64 bits; those of 4 MiB at once took 170 MB."""
    nodes = [node("Expand", "c s", "e"), node("Sin", "e")]
    proto = model(nodes, {}, {"c": floats(2048, 1), "s": np.array([1, 512])})
    most, found = peak(proto)
    assert found == []
    assert most < 24 << 20
