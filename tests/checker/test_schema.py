"""The schema of certificates is what other validators read it as, and names what the compiler writes."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from qmlir.analysis.certify.meaning import PAIRS as STATED_PAIRS
from qmlir.checker.functions import FUNCTIONS, PAIRS
from qmlir.checker.operations import TABLES
from qmlir.checker.schema import definition, first_breach, schema, trusted_fields
from qmlir.dialects.nn.functions import FUNCTIONS as STATED_FUNCTIONS
from tests.checker.certificates import CERTIFICATES, read
from tests.conftest import ROOT

VALIDATOR = Draft202012Validator(schema())


@pytest.fixture(scope="module", params=["per channel", "entries", "program"])
def certificate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return read(CERTIFICATES[request.param](tmp_path_factory.mktemp("certificate")))


@pytest.mark.slow
def test_certificates_follow_it(certificate: dict[str, Any]) -> None:
    VALIDATOR.validate(certificate)
    assert first_breach(certificate, certificate["about"]) is None


CHANGES: list[tuple[tuple[str | int, ...], Any]] = [
    (("qmlir",), "a b"),
    (("qmlir",), None),
    (("verdict",), "fine"),
    (("artefact",), []),
    (("artefact", 0, "file"), "a/b"),
    (("artefact", 0, "file"), ".\u0001"),
    (("artefact", 0, "sha256"), 64 * "A"),
    (("artefact", 0, "more"), 1),
    (("more",), 1),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_other_validators_agree(path: tuple[str | int, ...], value: Any, certificate: dict[str, Any]) -> None:
    changed = deepcopy(certificate)
    holder: Any = changed
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    assert not VALIDATOR.is_valid(changed)
    said = first_breach(changed, certificate["about"])
    assert said is not None
    assert said.startswith(str(path[0]))


def test_numbers_are_strict(certificate: dict[str, Any]) -> None:
    """A point or a truth value in place of an integer is refused, although JSON Schema takes 1.0 for an integer."""

    def indexed(certificate: dict[str, Any]) -> dict[str, Any]:
        """The first operation or command."""
        holder = certificate["entries"][0] if "entries" in certificate else certificate
        return holder["operations" if "operations" in holder else "commands"][0]

    index = indexed(certificate)["index"]
    for value in (float(index), bool(index)):
        changed = json.loads(json.dumps(certificate))
        indexed(changed)["index"] = value
        assert "index is not of type integer" in str(first_breach(changed, certificate["about"]))


def test_functions_are_those_that_the_compiler_states() -> None:
    _, _, single, pairs = definition("function")["oneOf"]
    assert set(single["properties"]["name"]["enum"]) == set(FUNCTIONS) == {op.name for op in STATED_FUNCTIONS}
    assert set(pairs["properties"]["name"]["enum"]) == set(PAIRS) == {op.name for op in STATED_PAIRS}
    assert set(FUNCTIONS).isdisjoint(PAIRS)
    assert len(TABLES) == 3


def test_the_page_lists_what_is_on_trust() -> None:
    page = (Path(ROOT) / "docs" / "certificates.md").read_text()
    for about in ("network", "entries", "program", "object"):
        for each in trusted_fields(about):
            assert f"`{str(each.field).rpartition('.')[2]}`" in page, each.field
