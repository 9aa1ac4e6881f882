"""The texts of remedies in the package's source, found in its syntax."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import qmlir

PACKAGE = Path(qmlir.__file__).parent
HOLDS_A_REMEDY = re.compile(r"(?i)\w*remed(y|ies)|_\w+_AGAIN")
MAY_HOLD_ONE = re.compile(r"(?i)remed|_AGAIN|UnsupportedError\(|Kind\(")
POSITIONAL = {"UnsupportedError": 2, "Kind": 1}
"""What takes a remedy without a keyword → its position."""


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose value is a remedy, or a table of them."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="remedy"):
                yield node.value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if HOLDS_A_REMEDY.fullmatch(name):
                yield value
            case ast.Assign(targets=targets) if any(HOLDS_A_REMEDY.fullmatch(ast.unparse(t)) for t in targets):
                yield node.value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)  # `*rest` stands for several
                yield from (value for name, value in pairs if HOLDS_A_REMEDY.fullmatch(ast.unparse(name)))
            case ast.Call(func=ast.Name(id=name), args=args) if len(args) > POSITIONAL.get(name, len(args)):
                yield args[POSITIONAL[name]]
            case _:
                pass


def _texts(expression: ast.AST) -> Iterator[str]:
    """The texts in an expression; what a formatted text leaves open is `…`."""
    if isinstance(expression, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in expression.values)  # type: ignore[misc]
    elif isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value
    else:
        said = expression.values if isinstance(expression, ast.Dict) else ast.iter_child_nodes(expression)
        for child in said:
            yield from _texts(child)


@cache
def remedies() -> dict[str, str]:
    """Text → the place where the package says it."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        if not MAY_HOLD_ONE.search(source):
            continue
        for expression in _expressions(ast.parse(source)):
            for text in _texts(expression):
                if text:
                    found.setdefault(text, f"{path.relative_to(PACKAGE)}:{expression.lineno}")
    return found
