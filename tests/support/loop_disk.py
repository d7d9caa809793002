"""A disk in a file, whose power can be cut: a loop mount that the kernel shuts down by force.

`xfs_io -x -c shutdown` makes a mounted ext4 or XFS refuse everything from then on. What was in
memory only is gone, also the part of the journal that was not on disk yet; the next mount finds
what a machine finds that lost its power. Needs root and loop devices; a test skips without them.
"""

import gc
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.external import require_program

_IMAGE_BYTES = {"ext4": 64 * 1024**2, "xfs": 320 * 1024**2}  # Sparse; mkfs.xfs wants 300 MB.
_MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
_PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}


class LoopDisk:
    """A file system of its own under `path`, while it is mounted."""

    def __init__(self, folder: Path, kind: str) -> None:
        if os.geteuid() != 0:
            pytest.skip("mounting a disk needs root")
        for program in ("mount", "umount"):
            require_program(program)
        require_program(_MAKE[kind][0], debian=_PACKAGES[kind])
        require_program("xfs_io", debian="xfsprogs")
        self.path = folder / f"mounted-{kind}"
        self.path.mkdir()
        self._image = folder / f"disk-{kind}"
        self._is_mounted = False
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_BYTES[kind])
        _run(*_MAKE[kind], str(self._image))
        try:
            self.mount()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no loop mount of {kind} on this machine: {error.stderr.strip()}")

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._is_mounted = True

    def cut_power(self) -> None:
        """From now on every write and sync fails. Files may be open; reading may still work."""
        _run("xfs_io", "-x", "-c", "shutdown", str(self.path))

    def restore_power(self) -> None:
        """Mounts anew what is on disk; no file of the old mount may be open any more."""
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        if self._is_mounted:
            gc.collect()  # A file that only a cycle of references holds is open still.
            _run("umount", str(self.path))
            self._is_mounted = False

    def discard(self) -> None:
        """Undoes the mount in any case: even if somebody holds a file, once he lets go of it."""
        try:
            self.unmount()
        except subprocess.CalledProcessError:
            _run("umount", "--lazy", str(self.path))
            raise
        finally:
            self._image.unlink()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
