"""The Java clients of Apache Kafka: compiles and runs `tests/java/ClientSession.java`."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.external import require_program
from tests.support.maven import SLF4J, classpath, join
from tests.support.repository import ROOT

_SOURCE = ROOT / "tests" / "java" / "ClientSession.java"
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_JAVAC = ("-J-XX:TieredStopAtLevel=1", "-J-Xshare:auto", "-proc:none")
_TIMEOUT_S = 60


@dataclass(frozen=True, kw_only=True)
class JavaClient:
    """The compiled program, with one version of the clients."""

    class_path: str

    def run(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Run each session with the broker at its address, in one process."""
        java = require_program("java", debian="openjdk-17-jdk-headless")
        done = subprocess.run(
            [
                *(str(java), *_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
                *("-cp", self.class_path, "ClientSession"),
                *(word for session in sessions for word in session),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]


def compile_client(version: str, directory: Path) -> JavaClient:
    """Skips the test where there is no Java or no Maven."""
    javac = require_program("javac", debian="openjdk-17-jdk-headless")
    jars = classpath(f"org.apache.kafka:kafka-clients:{version}", f"org.slf4j:slf4j-simple:{SLF4J}")
    subprocess.run(
        [str(javac), *_JAVAC, "-cp", join(jars), "-d", str(directory), str(_SOURCE)],
        timeout=_TIMEOUT_S,
        check=True,
    )
    return JavaClient(class_path=join(jars, directory))
