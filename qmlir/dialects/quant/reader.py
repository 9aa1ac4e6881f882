"""The parser of `!quant.uniform<…>`, a name that three classes share although xDSL looks up a single class by name.

The dialect registers `UniformSyntax`. It parses the text and returns an instance of the class that the text describes,
which prints itself under the same name. No value ever has `UniformSyntax` as its type.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import FloatStorageType, SubChannelType
from qmlir.dialects.quant.storage import parse_storage
from qmlir.dialects.quant.syntax import (
    expect,
    expressed_format,
    parse_axis,
    parse_block_sizes,
    parse_nested_pairs,
    parse_pair,
)
from qmlir.dialects.quant.types import PER_TENSOR, UniformType, packed_scales, packed_zero_points


@irdl_attr_definition
class UniformSyntax(ParametrizedAttribute, TypeAttribute):
    """Parses the name `quant.uniform` for the three classes that share it; see the module docstring."""

    name = "quant.uniform"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the type; returns it as the single parameter."""
        start = parser.pos
        try:
            return [_parse_uniform(parser)]
        except VerifyException as error:
            parser.raise_error(str(error), start)

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Any:
        """Returns the parsed type, whatever its class."""
        (read,) = params
        return read


def _parse_uniform(parser: AttrParser) -> Attribute:
    expect(parser, "<")
    storage_at = parser.pos
    storage, low, high = parse_storage(parser)
    expect(parser, ":")
    expressed_at = parser.pos
    expressed = parser.parse_type()
    try:
        expressed_format(expressed)
    except VerifyException as error:
        parser.raise_error(str(error), expressed_at)
    if parser.parse_optional_punctuation(":") is None:
        expect(parser, ",")
        pairs, axis = [parse_pair(parser, expressed)], PER_TENSOR
    elif parser.lexer.input.slice(parser.pos, parser.pos + 1) == "{":
        blocks = parse_block_sizes(parser)
        expect(parser, ",")
        pairs, shape = parse_nested_pairs(parser, expressed)
        expect(parser, ">")
        if not isinstance(storage, IntegerType):
            parser.raise_error(f"sub-channel quantization needs integers as storage, got {storage}", storage_at)
        scales, zero_points = zip(*pairs, strict=True)
        return SubChannelType.of(storage, blocks, shape, scales, zero_points, low, high, expressed)
    else:
        axis = parse_axis(parser)
        expect(parser, ",")
        pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: parse_pair(parser, expressed))
    expect(parser, ">")
    parameters = (
        IntAttr(low),
        IntAttr(high),
        expressed,
        packed_scales([scale for scale, _ in pairs]),
        packed_zero_points([zero_point for _, zero_point in pairs]),
        IntAttr(axis),
    )
    if isinstance(storage, IntegerType):
        return UniformType(storage, *parameters)
    return FloatStorageType(storage, *parameters)
