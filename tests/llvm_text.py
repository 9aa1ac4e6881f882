"""Reading LLVM IR text: which functions hold float types or float instructions."""

import re

_FUNCTION = re.compile(r"^define [^@]*@(?P<name>[\w.$]+)\((?P<rest>.*?)^}", re.MULTILINE | re.DOTALL)
_FLOAT = re.compile(r"\b(half|bfloat|float|double|f(add|sub|mul|div|rem|neg|cmp|ptrunc|pext|ptosi|ptoui)|[su]itofp)\b")


def functions_with_floats(llvm_ir: str) -> set[str]:
    """The names of the functions whose text has a float type or instruction anywhere."""
    return {m["name"] for m in _FUNCTION.finditer(llvm_ir) if _FLOAT.search(m["rest"])}


def calls_of(llvm_ir: str, name: str) -> list[str]:
    """The functions that a function calls, in order."""
    (body,) = (m["rest"] for m in _FUNCTION.finditer(llvm_ir) if m["name"] == name)
    return re.findall(r"call [^@\n]*@([\w.$]+)\(", body)
