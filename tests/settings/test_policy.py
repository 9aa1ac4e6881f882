"""Policies: files, data and words that mean the same, and what is refused with its place."""

from pathlib import Path
from typing import Any

import pytest

from qmlir.errors import FileError
from qmlir.settings.policy import Policy, PolicyError, Rule, rule_of
from qmlir.settings.quant_config import OpConfig

TEXT = """
default: {schema: symmetric, weight-precision: int6}
rules:
  - {name: conv1, precision: int16}
  - {glob: "head/*", keep-float: true}
  - {regex: "conv[0-9]+", calibration: kl, per_channel: false}
  - {between: [a, b], bias: int64}
  - {kind: conv2d, layer: last, range: [-1, 6.5]}
  - {name: x, parameters: [0.5, -3]}
"""
RULES = [
    Rule({"precision": "int16"}, name="conv1"),
    Rule({"keep_float": True}, glob="head/*"),
    Rule({"calibration": "kl", "per_channel": False}, regex="conv[0-9]+"),
    Rule({"bias": "int64"}, between=("a", "b")),
    Rule({"range": (-1.0, 6.5)}, kind="conv2d", layer="last"),
    Rule({"parameters": (0.5, -3)}, name="x"),
]
WORDS = [
    "name=conv1 precision=int16",
    "glob=head/* keep-float=true",
    "regex=conv[0-9]+ calibration=kl per_channel=false",
    "between=a,b bias=int64",
    "kind=conv2d layer=last range=-1,6.5",
    "name=x parameters=0.5,-3",
]


def said(rules: Any) -> list[Any]:
    return [(rule.settings, rule.selectors) for rule in rules]


def loaded(text: str, tmp_path: Path) -> Policy:
    (tmp_path / "net.yaml").write_text(text)
    return Policy.load(tmp_path / "net.yaml")


def test_a_file_data_objects_and_words_say_the_same(tmp_path: Path) -> None:
    policy = loaded(TEXT, tmp_path)
    assert policy.default == {"schema": "symmetric", "weight_precision": "int6"}
    assert said(policy.rules) == said(RULES)
    assert said(map(rule_of, WORDS)) == said(RULES)
    assert [r.place for r in policy.rules][:2] == [f"{tmp_path / 'net.yaml'}:{line}:5" for line in (4, 5)]
    assert [OpConfig().with_settings(r.settings) for r in policy.rules]
    again = Policy.of(Policy(policy.default, RULES).as_dict())
    assert (again.default, said(again.rules)) == (policy.default, said(RULES))
    assert said(loaded(policy.text(), tmp_path).rules) == said(RULES)


@pytest.mark.parametrize("text", ["", "rules:\n", "default:\nrules: []\n", "# nothing\n"])
def test_an_empty_policy(text: str, tmp_path: Path) -> None:
    assert loaded(text, tmp_path) == Policy({}, ())


BROKEN = {
    "rules: [": (2, 1, "must be a policy in YAML, got a mistake"),
    "- 1": (None, None, "must be a policy with default, rules and options"),
    "---\nrules: []\n---\nrules: []\n": (None, None, "must be a policy with default, rules and options"),
    "ruels: []": (1, 1, "a policy has default, rules and options, got ruels; did you mean rules?"),
    "default: {}\ndefault: {}": (2, 1, "must name each key once, got default again"),
    "default: 3": (1, 10, "default must be settings by name, got 3"),
    "default: {schema: symetric}": (1, 19, "must be one of asymmetric, .*, got symetric; did you mean symmetric"),
    "default: {range: [0, 1]}": (1, 11, "is for one tensor, so only a rule can say it, got range"),
    "default: {name: x}": (1, 11, "there is no such setting, got name"),
    "rules: {name: x}": (1, 8, "rules must be a list, got {name: x}"),
    "rules: [x]": (1, 9, "a rule is selectors and settings by name, got x"),
    "rules:\n- {precision: int8}": (2, 3, "a rule needs one of name, glob, regex, kind, between, layer, got none"),
    "rules:\n- {name: x}": (2, 3, "a rule needs a setting, got none; such as schema, precision, weight-precision"),
    "rules:\n- {name: 1, precision: int8}": (2, 10, "name must be text, got 1; put it into quotes"),
    "rules:\n- {name: , precision: int8}": (2, 10, "name must be text, got null"),
    "rules:\n- {layer: second, precision: int8}": (2, 11, "layer must be first or last, got second"),
    "rules:\n- {between: [a], precision: int8}": (2, 13, r"between must be two tensors' names, got \[a\]"),
    "rules:\n- {regex: '[', precision: int8}": (2, 11, r"regex must be a regular expression, got \[ \(unterm"),
    "rules:\n- {name: x, percision: int8}": (2, 13, "there is no such setting, got percision; did you mean precision"),
    "rules:\n- {name: x, precision: 8}": (2, 24, "must be one of int8, uint8, int16, float16, bfloat16, auto, got 8"),
    "rules:\n- {name: x, keep-float: 'yes'}": (2, 25, "must be true or false, got yes"),
    "rules:\n- {name: x, range: 1}": (2, 20, r"must be \[lowest, highest\], got 1"),
    "rules:\n- {name: x, range: [1, 0]}": (2, 20, r"must be two finite numbers in order, got \[1, 0\]"),
    "rules:\n- {name: x, range: [0, .inf]}": (2, 20, r"must be two finite numbers in order, got \[0, .inf\]"),
    "rules:\n- {name: x, range: [0, .nan]}": (2, 20, "must be two finite numbers in order"),
    "rules:\n- {name: x, parameters: [0, 0]}": (2, 25, r"the scale must be a positive number, got \[0, 0\]"),
    "rules:\n- {name: x, parameters: [1, 0.5]}": (2, 25, "the zero point must be an integer"),
    "rules:\n- {name: x, keep-float: true, keep_float: true}": (2, 31, "must name each key once, got keep_float again"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_a_policy_cannot_say_is_refused_at_its_place(text: str, tmp_path: Path) -> None:
    line, column, message = BROKEN[text]
    place = f":{line}:{column}" if line else ""
    with pytest.raises(FileError, match=rf"net\.yaml{place}: {message}") as error:
        loaded(text, tmp_path)
    assert "\n" not in str(error.value)


def test_data_and_words_are_refused_as_files_are() -> None:
    with pytest.raises(PolicyError, match="policy rules 1 precison: there is no such setting, got precison"):
        Policy.of({"rules": [{"name": "x", "precison": "int8"}]})
    with pytest.raises(PolicyError, match='rule "name=x precison=int8": there is no such setting, got precison'):
        rule_of("name=x precison=int8")
    with pytest.raises(PolicyError, match='rule "conv1": is written key=value key=value …, got conv1'):
        rule_of("conv1")
    with pytest.raises(PolicyError, match=r'rule "name=x range=\[": must be \[lowest'):
        rule_of("name=x range=[")
