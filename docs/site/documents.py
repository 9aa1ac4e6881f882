"""The page about documents in JSON: `docs/json.md`, from the schema that comes with qmlir."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from qmlir.backends.npu.stream import VERSION as PROGRAMS
from qmlir.checker.check import FORMAT as CERTIFICATES
from qmlir.cli.documents import FORMAT as DOCUMENTS
from qmlir.cli.documents import schema
from qmlir.profiles.files import FORMAT as PROFILES

HEADER = """\
# Documents in JSON

<!-- Written by `make tables` from qmlir/cli/schema.json; CI fails where it is not fresh. -->

Every command that has a result takes `--json`. Without a file, the document goes to standard output and replaces the
text; `--json FILE` writes it to a `.json` file beside the text. Errors and warnings go to standard error in both cases,
and the exit status is 1 after an error; no document is written then.

```sh
qmlir quantize net.onnx --data samples.npz -o net.mlir --json          # to standard output
qmlir bench net.mlir --json bench.json                                 # to a file
qmlir bench net.mlir --against bench.json                              # commands that read documents
```

The JSON Schema of all documents comes with the package, and tests hold every command to it:

```python
from qmlir.backends.npu.stream import VERSION as PROGRAMS
from qmlir.checker.check import FORMAT as CERTIFICATES
from qmlir.cli.documents import FORMAT as DOCUMENTS
from qmlir.cli.documents import schema

schema()["properties"]["format"]["const"]  # 'qmlir-1'
```

Times are in seconds, sizes in bytes, shares between 0 and 1, and MACs are multiplications with addition.

"""

VERSIONS = f"""\
## Versions {{#versions}}

The version of qmlir says what may have changed between two releases ([changelog](../CHANGELOG.md)). Each kind of file
has a version of its own. It rises when older readers would misread the file; readers refuse the files of other
versions, and say what to do.

| file | its version |
|---|---|
| documents in JSON | `{DOCUMENTS}`, the field `format` |
| profiles | `{PROFILES}`, the field `format` |
| certificates | `{CERTIFICATES}`, the field `format` |
| programs of devices (`.npu`) | {PROGRAMS}, behind the first eight bytes |
| modules (`.mlir`) | none: the parser refuses what it does not know |
"""


def page() -> str:
    """The whole page."""
    whole = schema()
    kinds, parts = _split(whole["$defs"])
    lines = [HEADER + VERSIONS, "## Every document\n", whole["description"], "", *_table(whole), ""]
    for kind in kinds.values():
        lines += [f"## `{kind['title'].replace(', ', '`, `')}`\n", kind["description"], "", *_table(kind), ""]
        for example in kind["examples"]:
            lines += ["```json", _indented(example), "```", ""]
    lines += ["## Parts of documents\n"]
    for name, part in parts.items():
        lines += [f"### {name}\n", part["description"], "", *_table(part), ""]
    return "\n".join(lines).rstrip() + "\n"


def _split(definitions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kinds = {name: each for name, each in definitions.items() if name.endswith("_document")}
    return kinds, {name: each for name, each in definitions.items() if name not in kinds}


def _table(object: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| field | type | meaning |", "|---|---|---|")
    for name, field in object["properties"].items():
        optional = "" if name in object["required"] else ", may be missing"
        meaning = field.get("description") or schema()["$defs"][_referenced(field)]["description"].rstrip(".").lower()
        yield f"| `{name}` | {_type(field)}{optional} | {meaning.replace('|', chr(92) + '|')} |"


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "oneOf" in field:
        return " or ".join(_type(each) for each in field["oneOf"])
    if "$ref" in field:
        return f"[{_referenced(field)}](#{_referenced(field)})"
    if "type" not in field:
        return "any"
    names = [field["type"]] if isinstance(field["type"], str) else field["type"]
    return " or ".join(_named(name, field) for name in names)


def _named(name: str, field: Mapping[str, Any]) -> str:
    if name == "array":
        return f"list of {_type(field['items'])}"
    return f"object of {_type(field['additionalProperties'])}" if "additionalProperties" in field else name


def _referenced(field: Mapping[str, Any]) -> str:
    return field["$ref"].rpartition("/")[2]


def _indented(value: Any, margin: int = 0) -> str:
    """JSON with what fits a line on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + margin <= 110 or not isinstance(value, dict | list):
        return line
    inner = " " * (margin + 2)
    if isinstance(value, list):
        rows, ends = [_indented(each, margin + 2) for each in value], "[]"
    else:
        rows, ends = [f'"{key}": {_indented(each, margin + 2)}' for key, each in value.items()], "{}"
    return f"{ends[0]}\n" + ",\n".join(inner + row for row in rows) + f"\n{' ' * margin}{ends[1]}"
