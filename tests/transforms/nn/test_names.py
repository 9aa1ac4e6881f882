"""A live source name is never lost: after `simplify` it is still on some operation or argument."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from xdsl.transforms.dead_code_elimination import region_dce

from qmlir.frontends.onnx import load_onnx
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.simplify import simplify
from tests.conftest import THOROUGH
from tests.graphs import frontend_network, names_in

MODELS = ("mnist-8", "cifar_imageclassifier", "ultraface_RFB-320_simplified", "super_resolution")


@pytest.mark.slow
def test_random_graphs() -> None:
    for seed in range(200 if THOROUGH else 60):
        module = frontend_network(seed)
        region_dce(module.body)  # what is dead in the source has no claim to live on
        before = names_in(module)
        simplify(module)
        assert before <= names_in(module), f"seed {seed}"


@pytest.mark.models
@pytest.mark.parametrize("model", MODELS)
def test_model(model: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/onnx/{model}.onnx")
    module = load_onnx(path)
    imported = names_in(module)
    simplify(module)
    assert imported <= names_in(module)
    # What an importer may compute itself are shapes and constants; every activation must have a name.
    graph = onnx.load(path).graph
    constants = {t.name for t in graph.initializer}
    constants |= {o for n in graph.node if n.op_type == "Constant" for o in n.output}
    source = {i.name for i in graph.input} - constants
    for node in graph.node:
        if not set(node.input) <= constants:
            source |= {*node.output, *([node.name] if node.name else [])}
    assert source <= names_in(module)


@pytest.mark.models
@pytest.mark.parametrize("model", MODELS)
def test_each_tensor_name_is_given_once(model: str, shared: Callable[[str], Path]) -> None:
    module = load_onnx(shared(f"models/onnx/{model}.onnx"))
    simplify(module)
    ops = [o for o in main_function(module).body.block.ops if o.results and o.name != "nn.constant"]
    names = [n for o in ops if (n := tensor_name(o.results[0]))]
    assert len(names) == len(set(names))
