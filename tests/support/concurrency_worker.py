"""Writes and recalls on a shared file. Run eight times at once by test_concurrency.py."""

import sys

import engram


def main(path: str, worker: str, rounds: str) -> None:
    with engram.open(path) as brain:
        agent = brain.agent("team")
        for number in range(int(rounds)):
            receipt = agent.remember(f"w{worker}n{number} is a note by worker {worker}", key=f"{worker}-{number}")
            assert receipt.status == "stored", receipt
            (hit, *_) = agent.recall(f"w{worker}n{number}", k=3)
            assert hit.id == receipt.id, (hit, receipt)


if __name__ == "__main__":
    main(*sys.argv[1:])
