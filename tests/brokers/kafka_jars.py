"""The jars of Apache Kafka, fetched once from Maven Central into a cache outside the tree."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

POM = Path(__file__).with_name("pom.xml")

#: The oldest Java that Kafka 4 brokers run on.
_OLDEST_JAVA = 17

#: Seconds for the download of some 45 MB.
_DOWNLOAD_TIMEOUT = 480.0

_LINES_IN_ERRORS = 8


class KafkaUnavailableError(RuntimeError):
    """Apache Kafka cannot be run on this machine; the message says what is missing."""


def kafka_version() -> str:
    """Return the version of Apache Kafka that `pom.xml` asks for."""
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    for dependency in ElementTree.parse(POM).iterfind("m:dependencies/m:dependency", names):
        if dependency.findtext("m:groupId", namespaces=names) == "org.apache.kafka":
            return dependency.findtext("m:version", namespaces=names) or ""
    raise ValueError(f"{POM}: no dependency on org.apache.kafka")


def find_java() -> str:
    """Return the path of a Java that is new enough; raises `KafkaUnavailableError` without one."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise KafkaUnavailableError(f"java is not installed; Apache Kafka needs Java {_OLDEST_JAVA} or newer")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        raise KafkaUnavailableError(
            f"{java} is {(answer.stderr or 'silent').splitlines()[0]}; Apache Kafka needs Java {_OLDEST_JAVA} or newer"
        )
    return java


def fetch_jars() -> Path:
    """Return the folder with the jars, which is filled when it is not there yet.

    The folder is `$XDG_CACHE_HOME/loopwarden/kafka-VERSION-DIGEST`, with a digest of `pom.xml`. Two processes that fetch at once
    wait for each other. Raises `KafkaUnavailableError` when Maven is missing or fails.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopwarden"
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
    jars = cache / f"kafka-{kafka_version()}-{digest}"
    if not jars.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / "kafka.lock"):
            if not jars.is_dir():
                _download(jars)
    return jars


def _download(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("mvn is not installed; the jars of Apache Kafka come by Maven")
    # Beside its later place and moved there when it is complete: a half-filled folder never has the name.
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="unfinished-") as folder:
        libs = Path(folder, "libs")
        command = [
            maven,
            "--batch-mode",
            "--quiet",
            "--file",
            str(POM),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={libs}",
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT, check=False)
        except subprocess.TimeoutExpired as error:
            raise KafkaUnavailableError(f"mvn did not fetch the jars of Apache Kafka in {_DOWNLOAD_TIMEOUT:.0f} s") from error
        if result.returncode:
            lines = (result.stdout + result.stderr).splitlines()[:_LINES_IN_ERRORS]
            raise KafkaUnavailableError("mvn cannot fetch the jars of Apache Kafka:\n" + "\n".join(lines))
        libs.rename(jars)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
