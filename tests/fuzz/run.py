"""Runs one target under atheris: `python tests/fuzz/fuzz_NAME.py [libFuzzer's arguments] [CORPUS]`.

atheris sees which branches an input takes only in code that it has rewritten: our packages as they
are imported, and the decoders and encoders as they are compiled.
"""

import importlib
import sys
from pathlib import Path
from typing import Any


def run(target: str, seeds: str) -> None:
    """Fuzzes `target` of tests.fuzz.targets; an empty corpus is first filled with its seeds."""
    import atheris

    with atheris.instrument_imports(include=["kafka_wire", "tests.fuzz.targets"]):
        targets = importlib.import_module("tests.fuzz.targets")
    source = importlib.import_module("kafka_wire.source").Source
    compile_function = source.function

    def compile_and_instrument(self: Any, name: str, filename: str) -> Any:
        return atheris.instrument_func(compile_function(self, name, filename))

    source.function = compile_and_instrument
    for argument in sys.argv[1:]:
        corpus = Path(argument)
        if corpus.is_dir() and not any(corpus.iterdir()):
            for number, seed in enumerate(getattr(targets, seeds)()):
                (corpus / f"seed-{number:04}").write_bytes(seed)
    atheris.Setup(sys.argv, getattr(targets, target))
    atheris.Fuzz()
