"""How samples are read from files, as texts that profiles and modules keep."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class ReadingNotes:
    """How samples were read from files, in the texts of the command line; empty if nobody said.

    preprocess   how pictures become inputs: "resize=256 scale=0.00392157"
    dtype        the element type of raw files: "uint8"
    """

    preprocess: str = ""
    dtype: str = ""

    def __bool__(self) -> bool:
        return bool(self.preprocess or self.dtype)

    def __str__(self) -> str:
        named = (("preprocess", self.preprocess), ("dtype", self.dtype))
        return ", ".join(f"{name} {text}" for name, text in named if text)

    def by_key(self) -> dict[str, str]:
        """Returns the texts that are not empty under the keys by which model files keep them."""
        texts = {f"qmlir.{each.name}": str(getattr(self, each.name)) for each in fields(self)}
        return {key: text for key, text in texts.items() if text}

    @staticmethod
    def from_keys(texts: Mapping[str, str]) -> "ReadingNotes":
        """Returns the notes that a model file keeps."""
        return ReadingNotes(**{each.name: texts.get(f"qmlir.{each.name}", "") for each in fields(ReadingNotes)})

    def over(self, others: "ReadingNotes") -> "ReadingNotes":
        """Returns these notes, with the others' texts where these are empty."""
        return ReadingNotes(self.preprocess or others.preprocess, self.dtype or others.dtype)
