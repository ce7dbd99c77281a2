"""A process that serves a memory over gRPC until it is told to stop."""

from __future__ import annotations

import sys

import engram
from engram.api.limits import Limits
from engram.server.grpc.run import Binding, serve


def main(path: str) -> None:
    with engram.open(path, embedder="hashing") as brain:
        keys = brain.keys
        print(keys.create("test", agents=["alice"], rights=["admin"])[1], flush=True)
        serve(brain, Binding(port=0), Limits(rate=0), lambda line: print(line, flush=True))
    print("closed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
