"""Java libraries for tests, resolved by Maven into the cache that Maven itself keeps.

Maven is asked offline first: where the artefacts are there already, no network is needed. Where
they come from is Maven's own configuration.
"""

import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.support.external import require_program
from tests.support.repository import ROOT

KAFKA = "4.3.1"
"""The newest Apache Kafka that we test against; it needs Java 17."""
KAFKA_3 = "3.9.2"
"""The last line of Kafka 3."""
SLF4J = "1.7.36"
"""The version of the logging facade that both of them ask for."""

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
_KNOWN = ROOT / "build" / "classpaths"
_TIMEOUT_S = 300


@functools.cache
def classpath(*coordinates: str) -> tuple[Path, ...]:
    """The jars of `group:artifact:version` coordinates and of all they need at run time.

    Skips the test where there is no Java or no Maven. What Maven answered is remembered in the
    build directory, for Maven alone takes seconds to say it.
    """
    require_program("java", debian="openjdk-17-jdk-headless")
    maven = require_program("mvn", debian="maven")
    known = _KNOWN / hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:16]
    jars = _read(known)
    if not jars:
        _resolve(maven, coordinates, known)
        jars = _read(known)
        assert jars, f"Maven resolved {coordinates} to files that are not there: see {known}"
    return jars


def join(jars: tuple[Path, ...], *others: Path) -> str:
    """What `java -cp` takes."""
    return os.pathsep.join(map(str, (*others, *jars)))


def _read(known: Path) -> tuple[Path, ...]:
    """The jars that are listed in the file, if they are all there."""
    if not known.exists():
        return ()
    jars = tuple(Path(jar) for jar in known.read_text().strip().split(os.pathsep))
    return jars if all(jar.is_file() for jar in jars) else ()


def _resolve(maven: Path, coordinates: tuple[str, ...], known: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        answer = Path(directory, "classpath")
        Path(directory, "pom.xml").write_text(_project(coordinates))
        command = [
            *(str(maven), "--batch-mode", "--quiet", f"{_PLUGIN}:build-classpath"),
            *(f"-Dmdep.outputFile={answer}", "-DincludeScope=runtime"),
        ]
        done = _run([*command, "--offline"], directory)
        if done.returncode != 0:
            done = _run(command, directory)
        if done.returncode != 0:
            raise RuntimeError(f"Maven cannot resolve {coordinates}:\n{done.stdout[-4000:]}")
        known.parent.mkdir(parents=True, exist_ok=True)
        partial = known.with_suffix(f".{os.getpid()}")  # another process may be doing the same
        partial.write_text(answer.read_text())
        partial.replace(known)


def _run(command: list[str], directory: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _project(coordinates: tuple[str, ...]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in (item.split(":") for item in coordinates)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>floodmark</groupId><artifactId>test-classpath</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
