"""Finding the operations of a policy's rules takes time for what the rules match, not for the whole network."""

import cProfile
import itertools
import pstats
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.calib import ObserveOp
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.context import make_context
from qmlir.ir.rewriting import node_name
from qmlir.policies.legality import target_of
from qmlir.settings.policy import Policy, PolicyError, Rule
from qmlir.transforms.quantize.prepare.apply_policy import NamedNetwork, apply_policy


def chain(count: int) -> ModuleOp:
    """A network of so many additions, r0 to r<count − 1>."""
    constant = helper.make_tensor("one", TensorProto.FLOAT, [4], np.arange(4, dtype=np.float32))
    names = ["x", *(f"r{number}" for number in range(count))]
    nodes = [helper.make_node("Add", [a, "one"], [b], b) for a, b in itertools.pairwise(names)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [constant])
    return load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def calls(count: int, selector: str) -> int:
    """The function calls that it takes to apply a rule to each operation of a network."""
    module = chain(count)
    ends = {"between": [(f"r{n}", f"r{n + 1}") for n in range(count - 1)], "kind": ["add"] * count}
    wanted = ends.get(selector, [f"r{number}" for number in range(count)])
    rules = [Rule({"keep_float": True}, **{selector: each}) for each in wanted]
    if selector == "kind":
        rules = [Rule(rule.settings, kind="add", name=f"r{n}") for n, rule in enumerate(rules)]
    target = target_of(make_context())
    with cProfile.Profile() as profile:
        applied = apply_policy(module, Policy(rules=rules), target)
    assert all(len(each.nodes) in (1, 2) for each in applied)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("selector", ["name", "kind"])
def test_a_rule_for_each_operation_is_linear(selector: str) -> None:
    assert calls(240, selector) < 5 * calls(60, selector)


@pytest.mark.slow
def test_many_rules_are_read_in_linear_time(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        lines = (f"- {{name: conv{number}, precision: int16}}\n" for number in range(count))
        (tmp_path / "p.yaml").write_text("rules:\n" + "".join(lines))
        with cProfile.Profile() as profile:
            assert len(Policy.load(tmp_path / "p.yaml").rules) == count
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    assert calls(800) < 5 * calls(200) < 5 * 200 * 600


RULES = {
    "name": ({"name": "r1"}, ["r1"]),
    "an input": ({"name": "x"}, ["input"]),
    "glob": ({"glob": "r?"}, ["r0", "r1", "r2", "r3"]),
    "regex": ({"regex": "r[13]"}, ["r1", "r3"]),
    "kind": ({"kind": "nn.ad*"}, ["r0", "r1", "r2", "r3"]),
    "between": ({"between": ("r0", "r2")}, ["r1", "r2"]),
    "several": ({"glob": "r*", "regex": ".*[02]", "kind": "add"}, ["r0", "r2"]),
    "everything": ({"glob": "*"}, ["input", "r0", "r1", "r2", "r3"]),
}


@pytest.mark.parametrize("name", RULES)
def test_what_rules_match_in_order(name: str) -> None:
    selectors, expected = RULES[name]
    network = NamedNetwork(chain(4))
    for _ in range(2):  # the second time from memory
        found = network.matching(Rule({"precision": "int16"}, **selectors))
        assert ["input" if isinstance(op, ObserveOp) else node_name(op) for op in found] == expected


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ({"name": "r9"}, r"by name, got r9; known: r0, r1, r2, r3, x"),
        ({"kind": "ad"}, r"by kind, got ad; did you mean add\?"),
        ({"between": ("r2", "r0")}, r"by between, got r2 to r0"),
        ({"name": "r1", "regex": "r2"}, r"by all it says, got name: r1, regex: r2"),
    ],
)
def test_rules_that_match_nothing(selectors: dict[str, object], message: str) -> None:
    network = NamedNetwork(chain(4))
    for _ in range(2):
        with pytest.raises(PolicyError, match=message):
            network.matching(Rule({"precision": "int16"}, **selectors))  # type: ignore[arg-type]
