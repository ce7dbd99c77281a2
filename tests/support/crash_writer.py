"""Writes memories for ever and reports each one as soon as it is acknowledged. Run by test_crash.py, and killed."""

import sys

import engram


def main(path: str, round_: str) -> None:
    brain = engram.open(path)
    alice = brain.agent("alice")
    number = 0
    while True:
        texts = [f"round{round_}x{number + i} the writer was here" for i in range(1 if number % 3 else 4)]
        receipts = alice.remember(texts, tags=["crash"])
        for text, receipt in zip(texts, receipts, strict=True):
            print(receipt.id, text.split()[0], flush=True)
        number += len(texts)


if __name__ == "__main__":
    main(*sys.argv[1:])
