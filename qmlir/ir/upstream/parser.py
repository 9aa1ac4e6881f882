r"""Parses MLIR text that upstream's tools print and that xDSL's parser cannot read, or reads too slowly.

    loc(#loc3), with `#loc3 = loc("net.py":7:1)` behind the module    the definition is read ahead at the first use
    loc(fused<"cse">[…]), loc("net.py":7:1 to 9:20)                    metadata and the end of a range are dropped:
                                                                       xDSL's locations have no place for them
    dense<"0x0000803F…"> : tensor<25000000xf32>                        held as bytes (dense.py); i1 is packed,
    dense<1.0> : tensor<25000000xf32>                                  i4 and i24 are in upstream's bytes
    dense_resource<conv1> : tensor<…>, the `{-# … #-}` behind it       held as bytes too (resources.py)
    "llvm.getelementptr"(%p, %i) <{…}>, as LLVM 19 prints it           properties that LLVM 19 lacks are added
    "tosa.conv2d"(%x, %w, %b) {quantization_info = …}                  operations of version 0.80 are kept as written
    "func.call"(%x) <{callee = @f, no_inline}>                         `no_inline` becomes an attribute: xDSL's calls
                                                                       and functions have no such property

In operations of qmlir's dialects, and in attributes called `qmlir.…`, such constants become `#qmlir.weights`.
"""

import re
from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FusedLoc,
    IntegerAttr,
    LocationAttr,
    NoneAttr,
    TensorType,
    UnitAttr,
    UnregisteredAttr,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qmlir.errors.near_misses import near_misses
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.resources import FileMetadata, file_metadata, unescaped
from qmlir.ir.upstream.bounded_parser import SIZE, BoundedParser
from qmlir.ir.upstream.dense import ELIDED, Dense, from_hexadecimal, from_list, from_resource, held_bytes, splat
from qmlir.ir.upstream.llvm import GEP_INBOUNDS
from qmlir.ir.upstream.tosa_0_80 import QUANTIZATION, is_of_0_80, unregistered
from qmlir.ir.weights import WeightsAttr

_OURS = frozenset(("nn", "qint", "qmlir"))
"""Dialects whose operations hold constants as `#qmlir.weights`."""

_ALIAS = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|//[^\n]*|^[ \t]*(?P<name>#[\w.$-]+)[ \t]*=', re.MULTILINE)
"""A string or a comment, or the definition of an alias."""


def _bounds(op: Operation) -> dict[str, Attribute]:
    """Returns the spelling of a GEP's `inbounds` that the text lacks; each text has one of two spellings."""
    flags = op.properties.get("noWrapFlags")
    if "inbounds" in op.properties:
        return {"noWrapFlags": IntegerAttr(GEP_INBOUNDS, i32)}
    if isinstance(flags, IntegerAttr) and flags.value.data & GEP_INBOUNDS == GEP_INBOUNDS:
        return {"inbounds": UnitAttr()}
    return {} if flags is not None else {"noWrapFlags": IntegerAttr(0, i32)}


def _segments(op: Operation) -> dict[str, Attribute]:
    """Returns the operand segments of a call whose text has none: all operands are the call's, none a bundle's."""
    known = "operandSegmentSizes" in op.properties
    return {} if known else {"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(op.operands), 0])}


_COMPLETED: dict[str, Callable[[Operation], dict[str, Attribute]]] = {
    "llvm.getelementptr": _bounds,
    "llvm.call": _segments,
    "llvm.call_intrinsic": _segments,
}
"""Operation → a function that returns the properties which the printing version of LLVM lacked."""

_LIST = re.compile(r"[\w.+\-\[\],\s]+(?=>)")
"""Numbers and brackets up to the closing `>`."""


class UpstreamParser(BoundedParser):
    """xDSL's parser with the additions of the module docstring."""

    _metadata: FileMetadata
    _definitions: dict[str, int] | None
    _read_ahead: set[str]

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        # Reads the metadata and the first token, so it may raise ParseError.
        self._metadata = file_metadata(text, name)
        self._definitions = None
        self._read_ahead = set()
        super().__init__(ctx, text, name)

    # -- aliases and locations -------------------------------------------------------------------------------------

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name in self._read_ahead:
            self._read_ahead.remove(name)
            del self.attribute_aliases[name]
        super()._parse_alias_def()

    def _parse_location(self) -> LocationAttr:
        if self._current_token.kind == MLIRTokenKind.HASH_IDENT:
            return self._location_of_alias()
        if self._current_token.text == "fused":
            return self._nested(self._fused_location)
        location = super()._parse_location()
        if self.parse_optional_keyword("to") is not None:  # a range; the end's line is omitted if both are on one line
            self.parse_optional_integer(False, False)
            self.parse_punctuation(":")
            self.parse_integer(False, False)
        return location

    def _location_of_alias(self) -> LocationAttr:
        token = self._current_token
        name = token.text
        if name not in self.attribute_aliases:
            here = self.pos
            if (definition := self._alias_definitions().pop(name, None)) is None:
                self.raise_error(f"the location {name} is not defined", token.span)
            self._resume_from(definition)
            super()._parse_alias_def()
            self._read_ahead.add(name)
            self._resume_from(here)
        self._consume_token()
        location = self.attribute_aliases[name]
        if not isa(location, LocationAttr):
            self.raise_error(f"{name} is not a location", token.span)
        self._use(name)
        return location

    def _alias_definitions(self) -> dict[str, int]:
        """Returns the position in the text of each alias definition."""
        if self._definitions is None:
            found = _ALIAS.finditer(self.lexer.input.content)
            self._definitions = {m["name"]: m.start("name") for m in found if m["name"]}
        return self._definitions

    def _fused_location(self) -> LocationAttr:
        self._consume_token()
        if self.parse_optional_punctuation("<") is not None:
            self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(tuple(parts), NoneAttr())

    # -- TOSA 0.80 -------------------------------------------------------------------------------------------------

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        return self._completed_tosa(super()._parse_generic_operation(op_type))

    def _completed_tosa(self, op: Operation) -> Operation:
        """Returns an operation; in unregistered form if only TOSA version 0.80 writes it in this way."""
        return unregistered(op) if op.name.startswith("tosa.") and is_of_0_80(op) else op

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        if attr_name in QUANTIZATION:
            made = UnregisteredAttr.with_name_and_type(attr_name, False)
            return made(attr_name, False, False, self._parse_dialect_symbol_body())
        return super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)

    # -- constants -------------------------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        if (completed := _COMPLETED.get(op.name)) is not None:
            op.properties.update(completed(op))
        if op.name in ("func.call", "func.func") and (mark := op.properties.pop("no_inline", None)) is not None:
            op.attributes["no_inline"] = mark
        ours = op.name.partition(".")[0] in _OURS
        for held in (op.properties, op.attributes):
            for key, attribute in held.items():
                if ours or key.startswith("qmlir."):
                    held[key] = self._made(_as_weights, attribute, start=start)
        return op

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        token = self._current_token
        if token.kind == MLIRTokenKind.STRING_LIT:
            self._consume_token()
            self.parse_punctuation(">", " in dense attribute")
            digits = token.text[1:-1]
            if not digits.startswith("0x"):
                self.raise_error("expected hexadecimal digits behind 0x", token.span)
            return self._made(from_hexadecimal, self._dense_type(type), digits[2:], start=token.span.start)
        text = _LIST.match(self.lexer.input.content, token.span.start)
        if text is not None:
            self._resume_from(text.end())
            self.parse_punctuation(">", " in dense attribute")
            if (made := from_list(self._dense_type(type), text[0])) is not None:
                return made
        self._resume_from(start)
        return self._other_constant(type)

    def _other_constant(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """Parses a constant that only xDSL can read; a splat is read as one number, which xDSL would repeat."""
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        shape = [0] if self._current_token.text == ">" else self._parse_tensor_literal()[1]
        self.parse_punctuation(">", " in dense attribute")
        type, end = self._dense_type(type), self.pos
        self._resume_from(start)
        one = TensorType(type.element_type, [1])
        found = super().parse_dense_int_or_fp_elements_attr(type if shape else one)
        self._resume_from(end)
        return found if shape else splat(type, bytes(found.data.data))

    def _parse_builtin_dense_resource_attr(self) -> Any:
        start = self.pos
        data = self.parse_resource()
        return self._made(from_resource, self._dense_type(), data, start=start)

    def parse_resource(self) -> memoryview:
        """Reads `<key>` and returns the bytes of that resource."""
        self.parse_punctuation("<", " in dense_resource attribute")
        token = self._current_token
        if token.kind not in (MLIRTokenKind.BARE_IDENT, MLIRTokenKind.STRING_LIT):
            self.raise_error("expected the key of a resource")
        self._consume_token()
        key = unescaped(token.text[1:-1]) if token.kind == MLIRTokenKind.STRING_LIT else token.text
        if (data := self._metadata.blobs.get(key)) is None:
            if key == ELIDED:
                self.raise_error("this constant was elided when the module was printed", token.span)
            remedy = near_misses(key, self._metadata.blobs) if self._metadata.blobs else None
            remedy = remedy or "print the module again without eliding its resources"
            self.raise_error(f"the file holds no resource {key}; {remedy}", token.span)
        self.parse_punctuation(">", " in dense_resource attribute")
        return data

    def _dense_type(self, known: Any = None) -> Any:
        """Returns the type of a constant, and reads it unless it is known already."""
        start = self.pos
        if known is None:
            self.parse_punctuation(":", " in dense attribute")
            known = self._parse_dense_literal_type()
        if prod(known.get_shape()) > SIZE:
            self.raise_error(f"a constant has at most {SIZE} elements", start)
        return known

    def _made(self, make: Any, *arguments: Any, start: int) -> Any:
        """Returns the result of `make` on its arguments, and reports its errors at `start`."""
        try:
            return make(*arguments)
        except (ValueError, VerifyException) as error:
            self.raise_error(str(error), start)

    def _parse_file_metadata_dictionary(self) -> None:
        self._resume_from(self._metadata.ends[self.pos])  # the section was read before everything else


def _as_weights(attribute: Attribute) -> Attribute:
    """Replaces every `dense` inside an attribute by `#qmlir.weights` around the same bytes, where that is possible.

    Raises:
        ValueError: A constant of one value is too large to be written out.
    """
    match attribute:
        case DenseIntOrFPElementsAttr():
            constant = cast(Dense, attribute)
            try:
                dtype = dtype_of(cast(Attribute, constant.get_element_type()))
            except KeyError:
                return constant
            stored = np.dtype(np.int8) if dtype.kind == "b" else dtype
            array = held_bytes(constant).view(stored).reshape(constant.get_shape())
            return WeightsAttr(array.astype(dtype, copy=False))
        case ArrayAttr():
            return ArrayAttr([_as_weights(each) for each in attribute])
        case DictionaryAttr():
            return DictionaryAttr({key: _as_weights(each) for key, each in attribute.data.items()})
        case _:
            return attribute
