"""Takes snapshots and prunes them at the same time, and kills both at some moment. Run by test_workspaces_prune.py."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import engram
import engram.stores.sqlite
import engram.wiring
from engram.agents.workspaces.snapshots import Workspaces

Act = Callable[[Workspaces, Path, random.Random], None]
FILES = 6


def main(path: str, folder: str, kills: str) -> None:
    dice = random.Random(11)
    forked(finish, path, folder, dice.randrange(2**30))
    for round_ in range(int(kills)):
        ready, heard = os.pipe()
        children = [fork(act, path, folder, dice.randrange(2**30), heard) for act in (snapshots, prunings)]
        os.close(heard)
        os.read(ready, 1)  # one of them is at work
        os.close(ready)
        time.sleep(dice.uniform(0, 0.3))
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if round_ % 5 == 4:
            forked(finish, path, folder, 0)


def fork(act: Act, path: str, folder: str, seed: int, ready: int | None = None) -> int:
    child = os.fork()
    if child == 0:
        with engram.open(path, embedder="hashing", durable=False) as brain:
            own = brain.agent("alice").workspaces
            own.create("site", folder)
            if ready is not None:
                with suppress(BrokenPipeError):
                    os.write(ready, b".")
            act(own, Path(folder), random.Random(seed))
        os._exit(0)
    return child


def forked(act: Act, path: str, folder: str, seed: int) -> None:
    if os.waitpid(fork(act, path, folder, seed), 0)[1]:
        sys.exit("a snapshot lacks some of its files")


def snapshots(own: Workspaces, folder: Path, dice: random.Random) -> None:
    """Files come back to what they held before, so that what is just being deleted is needed again."""
    while True:
        for name in dice.sample(range(FILES), 2):
            size = 1_200_000 if name == 0 else 2000
            content = random.Random(dice.randrange(4)).randbytes(size)
            (folder / f"file{name}").write_bytes(b"\x00" + content)
        own.snapshot("site")


def prunings(own: Workspaces, folder: Path, dice: random.Random) -> None:
    while True:
        own.prune("site", keep=dice.randint(1, 3))


def finish(own: Workspaces, folder: Path, dice: random.Random) -> None:
    own.snapshot("site")
    own.prune(keep=2)
    assert own.verify().problems == ()


if __name__ == "__main__":
    main(*sys.argv[1:])
