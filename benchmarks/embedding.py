"""Measure texts embedded per second, relative to onnxruntime on ideal batches of the same texts.

python benchmarks/embedding.py [--texts 400]

An ideal batch has texts of one length, so that nothing is padded, and uses every core. Engram runs one text at a time
on each core, because a quantised model's vectors would depend on their neighbours in a batch.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from engram import config, wiring
from engram.clock import Sources
from engram.embed.onnx import OnnxEmbedder
from engram.privacy import SecretRedactor
from engram_bench.synthetic import text

BATCH, ROUNDS = 16, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=400)
    count = parser.parse_args().texts
    settings = config.load({"db": ":memory:"})
    embedder = wiring.choose_embedder(settings, wiring.open_store(settings, Sources()), print)
    if not isinstance(embedder, OnnxEmbedder):
        raise SystemExit("this measures a local model; run `engram model install` first")
    said = [" ".join(text(7 * n + part) for part in range(1 + n % 8)) for n in range(count)]
    texts = [cleaned.text for cleaned in SecretRedactor().clean(said)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(str(embedder.model), options, providers=["CPUExecutionProvider"])
    batches = ideal(Tokenizer.from_file(str(embedder.tokenizer)), texts, {i.name for i in session.get_inputs()})
    session.run(None, batches[0])
    embedder.embed(texts[:8])
    best = {"ideal batches": 0.0, "Engram": 0.0}
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for batch in batches:
            session.run(None, batch)
        best["ideal batches"] = max(best["ideal batches"], count / (time.perf_counter() - start))
        start = time.perf_counter()
        embedder.embed(texts)
        best["Engram"] = max(best["Engram"], count / (time.perf_counter() - start))
    for name, speed in best.items():
        print(f"{name:15}{speed:8.1f} texts a second{speed / best['ideal batches']:8.2f} of ideal")


def ideal(tokenizer: Tokenizer, texts: Sequence[str], inputs: set[str]) -> list[dict[str, np.ndarray]]:
    """Return batches of about equally long texts, each cut to the shortest in it, so that nothing is padded."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=512)
    ids = sorted((tokenizer.encode(one).ids for one in texts), key=len)
    batches = []
    for first in range(0, len(ids), BATCH):
        some = ids[first : first + BATCH]
        middle = sum(map(len, some)) // len(some)  # longer ones are cut, shorter ones repeated: no padding
        rows = np.array([(one * 2 * middle)[:middle] for one in some], dtype=np.int64)
        given = {"input_ids": rows, "attention_mask": np.ones_like(rows), "token_type_ids": np.zeros_like(rows)}
        batches.append({name: value for name, value in given.items() if name in inputs})
    return batches


if __name__ == "__main__":
    main()
