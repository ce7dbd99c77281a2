"""Makes the code in `v1` from the .proto files there; `make proto` runs it with the Python that has the generator.

The digests of all files are kept beside them, so that a .proto file that was changed without this is noticed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path("engram/rpc/v1")
SUMS = "SHA256SUMS"
VERSION = "1.71.2"
"""Of grpcio-tools: what it makes works with protobuf 5.29 to 7, so that other frameworks can be installed beside."""


def generate(to: Path = ROOT) -> None:
    """Write the code, below a folder, and the digests. Raises `CalledProcessError` if a .proto file is not right."""
    files = [str(FOLDER / name) for name in ("model.proto", "service.proto")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", "."]
    subprocess.run([*protoc, f"--python_out={to}", f"--pyi_out={to}", *files], check=True, cwd=ROOT)  # noqa: S603
    subprocess.run([*protoc, f"--grpc_python_out={to}", files[1]], check=True, cwd=ROOT)  # noqa: S603
    (to / FOLDER / SUMS).write_text(sums(to / FOLDER), encoding="ascii")


def sums(folder: Path) -> str:
    """The digest of each .proto file, and of each file that was made from them."""
    sources = [ROOT / FOLDER / name for name in ("model.proto", "service.proto")]
    files = [*sources, *sorted(folder.glob("*_pb2*.py*"))]
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


if __name__ == "__main__":
    generate()
