"""Value types of a device file: numbers with units, names, and tables that reject unknown keys."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


def _count(unit: str, least: int = 1) -> object:
    return Field(strict=True, ge=least, json_schema_extra={"unit": unit})


Bytes = Annotated[int, _count("bytes")]
Cycles = Annotated[int, _count("cycles", 0)]
Lanes = Annotated[int, _count("lanes")]
Elements = Annotated[int, _count("elements")]
Steps = Annotated[int, _count("steps")]
Bits = Annotated[int, _count("bits", 0)]
Count = Annotated[int, _count("count")]
BytesPerCycle = Annotated[float, Field(strict=True, gt=0, json_schema_extra={"unit": "bytes/cycle"})]
ElementsPerCycle = Annotated[float, Field(strict=True, gt=0, json_schema_extra={"unit": "elements/cycle"})]
MacsPerCycle = Annotated[float, Field(strict=True, gt=0, json_schema_extra={"unit": "MACs/cycle"})]
Share = Annotated[float, Field(strict=True, gt=0, le=1, json_schema_extra={"unit": "share of the peak"})]
MHz = Annotated[int, _count("MHz")]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_-]*$")]

Storage = Literal["i8", "u8", "i16"]
Accumulator = Literal["i24", "i32", "i40", "i48", "i64"]
Addend = Literal["i8", "i16", "i24", "i32", "i40", "i48", "i64"]
Role = Literal["ifm", "ofm", "weights", "acc", "bias", "scales", "lut"]


class Table(BaseModel):
    """A table of the file: it rejects keys that its class does not have, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)
