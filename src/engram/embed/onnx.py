"""Run sentence-embedding models in ONNX format; the only module that imports onnxruntime and tokenizers."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engram.errors import Hint, MissingExtra, ModelError, ModelUnavailable
from engram.model import Clean, Frozen
from engram.ports import Matrix, Purpose, Vector

Pooling = Literal["cls", "mean"]
_POOLED = ("sentence_embedding", "text_embeds")  # names exporters give an output with one row per text
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_NEEDED = ("onnxruntime", "tokenizers")
_WORKERS = min(4, os.cpu_count() or 1)


class Recipe(Frozen):
    """The settings a model needs: the same weights with other settings give other vectors."""

    pooling: Pooling = "mean"
    query_prefix: str = ""
    max_length: int = Field(default=512, ge=3)


def require_libraries() -> None:
    """Raise `MissingExtra` unless the libraries that run a model are installed."""
    if absent := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise MissingExtra(f"this embedder needs {' and '.join(absent)}: pip install {' '.join(absent)}")


class Tensor(Protocol):
    """An input or output of a session."""

    @property
    def name(self) -> str:
        """Its name in the graph."""
        ...

    @property
    def shape(self) -> Sequence[int | str | None]:
        """Its dimensions; a free one is a name or `None`."""
        ...


@dataclass(frozen=True, slots=True)
class _Runtime:
    session: Any  # neither library is typed
    tokenizer: Any
    inputs: Mapping[str, type[np.signedinteger[Any]]]
    output: str


class OnnxEmbedder:
    """Embeds with a local ONNX model, loaded at the first use; safe for any number of threads.

    The constructor reads no file; it raises `MissingExtra` if the libraries are not installed.
    """

    def __init__(self, model: Path, tokenizer: Path, *, identity: str, recipe: Recipe, dim: int | None = None) -> None:
        require_libraries()
        self.model, self.tokenizer = model, tokenizer
        self._identity, self._recipe, self._dim = identity, recipe, dim
        # By process: another thread may have held a lock, ours or the library's, at the moment of a fork.
        # The child makes its own, and ignores what it inherited.
        self._runtimes: dict[int, _Runtime] = {}
        self._locks: dict[int, threading.Lock] = {}

    @property
    def identity(self) -> str:
        """Identifies the model and its weights."""
        return self._identity

    @property
    def dim(self) -> int:
        """The length of every vector; loads the model if it is unknown."""
        if self._dim is None:
            self._dim = len(self._run(self._ready(), "dimensions"))
        return self._dim

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order; texts are cut at the model's maximum length."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        runtime = self._ready()
        prefix = self._recipe.query_prefix if purpose == "query" else ""

        def one(text: str) -> Vector:
            return self._run(runtime, prefix + text)

        # One text a run. A quantised model scales its activations by the whole batch, so in a batch a vector
        # would depend on its neighbours (cosine down to 0.95); and several threads are as fast as batches.
        if len(texts) == 1 or _WORKERS == 1:
            return np.stack([one(text) for text in texts])
        longest_first = sorted(
            range(len(texts)), key=lambda place: -len(texts[place])
        )  # so that all threads end together
        with ThreadPoolExecutor(min(_WORKERS, len(texts)), "engram-embed") as pool:
            vectors = list(pool.map(one, (texts[place] for place in longest_first)))
        return np.stack(vectors)[np.argsort(longest_first)]

    def _ready(self) -> _Runtime:
        process = os.getpid()
        if process not in self._runtimes:
            with self._locks.setdefault(process, threading.Lock()):
                if process not in self._runtimes:
                    self._runtimes[process] = self._load()
        return self._runtimes[process]

    def _load(self) -> _Runtime:
        for path in (self.model, self.tokenizer):
            if not path.is_file():
                raise ModelUnavailable(
                    f"there is no model file {path}", hint=Hint("model list", "shows the installed ones")
                )
        with _translated(f"{self.model.parent} could not be loaded"):
            # Newer releases send telemetry, from a thread that starts at import and keeps a forked child
            # from exiting. Engram sends none: the variable prevents it, the call stops it if it is running.
            os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
            import onnxruntime  # noqa: PLC0415 - a third of a second that only embedding should cost
            from tokenizers import Tokenizer  # noqa: PLC0415

            onnxruntime.disable_telemetry_events()
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4  # failures are raised, there is no need to print them as well
            # No threads inside: a forked child could not even exit, since the session waits for them. Short
            # texts lose nothing, and `embed` runs several texts at once. No spinning, if there ever are some.
            options.intra_op_num_threads = 1
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            session = onnxruntime.InferenceSession(str(self.model), options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_file(str(self.tokenizer))
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length=self._recipe.max_length)
            inputs = {
                tensor.name: np.int32 if tensor.type == "tensor(int32)" else np.int64 for tensor in session.get_inputs()
            }
            if foreign := sorted(inputs.keys() - set(_INPUTS)):
                raise ModelError(f"the model needs other inputs than text ({', '.join(foreign)}); use another one")
            return _Runtime(session, tokenizer, inputs, choose_output(session.get_outputs()))

    def _run(self, runtime: _Runtime, text: str) -> Vector:
        with _translated(f"{self._identity} failed"):
            # Not `encode_batch`: it starts threads of its own, which complain after a fork.
            ids = np.array([runtime.tokenizer.encode(text).ids or [0]])
            known = dict(zip(_INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
            feed = {name: known[name].astype(dtype, copy=False) for name, dtype in runtime.inputs.items()}
            (output,) = runtime.session.run([runtime.output], feed)
        return pooled(np.asarray(output[0], dtype=np.float32), self._recipe.pooling)


def choose_output(outputs: Sequence[Tensor]) -> str:
    """Return the output to read: sentence vectors if there are any, then token vectors, then any matrix.

    BERT's `pooler_output` is a matrix as well, but made for another task: token vectors are preferred.
    """
    for tensor in outputs:
        if tensor.name in _POOLED:
            return tensor.name
    for rank in (3, 2):
        for tensor in outputs:
            if len(tensor.shape) == rank:
                return tensor.name
    raise ModelError("the model gives no vectors; use a sentence-embedding model")


def pooled(output: NDArray[np.float32], pooling: Pooling) -> Vector:
    """Return one vector of length 1, from one vector per token or from a pooled one."""
    if output.ndim == 2:
        output = output[0] if pooling == "cls" else output.mean(axis=0)
    length = np.linalg.norm(output)
    if not (np.isfinite(length) and length > 0):
        raise ModelError(
            "the model returned a zero or non-finite vector", hint=Hint("model verify", "checks its files")
        )
    return np.asarray(output / length, dtype=np.float32)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # both libraries raise bare Exceptions
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{what}: {reason}", hint=Hint("model verify", "checks its files")) from error
