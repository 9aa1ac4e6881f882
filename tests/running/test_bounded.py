"""Hostile YAML, TOML and JSON: typed errors, soon."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.cli.ledger import read_ledger
from qmlir.devices import load_device
from qmlir.errors import FileError, QmlirError
from qmlir.ir.side_file import map_side_file
from qmlir.profiles.profile import Profile
from qmlir.running.yaml_files import NESTING, check_data
from qmlir.settings.policy import Policy


def aliases(first: str, next: str, count: int = 12) -> str:
    """Aliases each of which uses the one before it nine times, in one list."""
    parts = [f"&a0 {first}", *(f"&a{i} {next.format(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, count))]
    return "rules:\n" + "".join(f"- {part}\n" for part in parts)


def side_file(header: str) -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + bytes(64)


YAML = {
    "aliases": aliases("[1, 2]", "[{}]"),
    "merged mappings": aliases("{a: 1, b: 2, c: 3}", "{{<<: [{}]}}"),
    "a list in itself": "rules: &a [*a, *a]",
    "nested lists": "- " * 3000 + "a",
    "nested brackets": "rules: " + "[" * 3000 + "]" * 3000,
    "a long number": "rules: " + "9" * 5000,
    "a long binary number": "rules: 0b" + "1" * 100_000,
}
OTHERS: dict[str, tuple[Callable[[Path], object], str, str | bytes]] = {
    "nested arrays in TOML": (load_device, "d.toml", "a = " + "[" * 3000),
    "nested tables in TOML": (load_device, "d.toml", "a = " + "{a = " * 3000),
    "a long key in TOML": (load_device, "d.toml", "a." * 20_000 + "b = 1"),
    "a long table's name in TOML": (load_device, "d.toml", "[" + "a." * 20_000 + "b]"),
    "a long number in TOML": (load_device, "d.toml", "a = " + "9" * 5000),
    "nested JSON": (read_ledger, "l.json", "[" * 100_000),
    "a long number in JSON": (read_ledger, "l.json", '[{"a": ' + "9" * 5000 + "}]"),
    "a nested header": (map_side_file, "w.safetensors", side_file('{"a":' * 100_000)),
    "an endless shape": (
        map_side_file,
        "w.safetensors",
        side_file('{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}'),
    ),
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
@pytest.mark.parametrize("read", [Policy.load, Profile.load], ids=["policy", "profile"])
def test_hostile_yaml(text: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    # From 6.0.4 on, PyYAML merges each field once, so that merged mappings are small and merely no rules.
    with pytest.raises(QmlirError, match=r"must be a|a rule needs one of"):
        read(tmp_path / "f.yaml")


@pytest.mark.parametrize(("read", "name", "content"), OTHERS.values(), ids=OTHERS)
def test_other_hostile_files(read: Callable[[Path], object], name: str, content: str | bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match="must be"):
        read(tmp_path / name)


def test_plain_data_passes() -> None:
    shared = {"a": [1, 2.5, "x", None]}
    check_data([shared] * 1000)
    deep: object = 1
    for _ in range(NESTING):
        deep = [deep]
    check_data(deep)
    with pytest.raises(ValueError, match="nested more than"):
        check_data([deep])
