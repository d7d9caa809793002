"""`python -m quorum.api.generate`: makes the Python modules of `quorum.proto` again.

They are checked in, so that an installation needs no compiler; a test compares them with what this
makes. The compiler and the generators of stubs come with the extra `test`.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

PROTO = "quorum/api/quorum.proto"
ROOT = Path(__file__).parent.parent.parent
GENERATED = ("quorum_pb2.py", "quorum_pb2.pyi", "quorum_pb2_grpc.py", "quorum_pb2_grpc.pyi")


def main() -> int:
    made = generate(ROOT)
    for name, text in made.items():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")
    return 0


def generate(root: Path) -> Mapping[str, str]:
    """The text of each generated module, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "protoc",
            f"--proto_path={root}",
            f"--python_out={folder}",
            f"--grpc_python_out={folder}",
            f"--plugin=protoc-gen-mypy={_program('protoc-gen-mypy')}",
            f"--mypy_out=quiet:{folder}",
            f"--plugin=protoc-gen-mypy_grpc={_program('protoc-gen-mypy_grpc')}",
            f"--mypy_grpc_out=quiet:{folder}",
            PROTO,
        ]
        code = protoc.main(arguments)
        if code != 0:
            raise RuntimeError(f"the protobuf compiler failed with exit code {code}")
        made = Path(folder) / "quorum" / "api"
        return {name: (made / name).read_text(encoding="utf-8") for name in GENERATED}


def _program(name: str) -> str:
    """A generator of the environment that runs us, which need not be on the PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; it comes with the extra 'test'")
    return found


if __name__ == "__main__":
    sys.exit(main())
