"""A small real disk that can be filled, be broken and be mended: ext4 on a loop device, its image in memory.

The loop device goes with its mount, and the mount with the test run's mount namespace: nothing is left behind, however a run ends.
"""

import fcntl
import os
import struct
import subprocess
from pathlib import Path

from lib import hosts

LOOP_SET_STATUS64 = 0x4C04
LOOP_GET_STATUS64 = 0x4C05
LOOP_STATUS_BYTES = 232
LOOP_SIZE_LIMIT_AT = 32
"""Of `struct loop_info64`."""
KEPT_BYTES = 1 << 20
"""What stays of a broken disk: where such a small file system has its own structures."""


class NoDisk(Exception):
    """This machine gives no loop devices."""


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoDisk(f"{' '.join(command)}: {getattr(error, 'stderr', '') or error}".strip()) from error


class Disk:
    """A mounted file system of `size_bytes`, empty. `close` undoes everything."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        if hosts.refusal():
            raise NoDisk(hosts.refusal())
        self.path = folder / "disk"
        self.memory = folder / "memory"
        self.image = self.memory / "image"
        self.size_bytes = size_bytes
        self.device = ""
        self.path.mkdir()
        hosts.mount_small_disk(self.memory, 2 * size_bytes)
        try:
            with self.image.open("wb") as image:
                image.truncate(size_bytes)
            # Few inodes, no journal: little that a broken disk could take with it but the files' own blocks.
            options = ["-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", "-N", "256", "-m", "0"]
            _run("mkfs.ext4", "-q", "-F", *options, str(self.image))
            self.mount()
        except BaseException:
            hosts.unmount(self.memory)
            raise

    def mount(self) -> None:
        """Mounts it; errors that the file system itself meets make it read-only, as is usual."""
        self.device = _run("losetup", "--find", "--show", str(self.image))
        try:
            hosts.mount(self.device, str(self.path), "ext4", data="errors=remount-ro")
        finally:
            # Takes effect when nothing has it mounted any more.
            _run("losetup", "--detach", self.device)

    def unmount(self) -> None:
        """Takes it away; nobody may have a file of it open."""
        hosts.unmount(self.path)

    def repair(self) -> None:
        """Checks and repairs it, unmounted, as an operator would."""
        status = subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True).returncode
        assert status in (0, 1), f"e2fsck ends with {status}"

    def close(self) -> None:
        """Undoes everything."""
        hosts.unmount(self.path)
        hosts.unmount(self.memory)

    # -- what befalls it ---------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Takes all the room that is left."""
        with (self.path / "filler").open("ab") as filler:
            while free := self.free_bytes():
                os.posix_fallocate(filler.fileno(), filler.tell(), free)
                filler.seek(0, os.SEEK_END)

    def empty(self) -> None:
        """Gives that room back."""
        (self.path / "filler").unlink()

    def free_bytes(self) -> int:
        """Room that is left for a file, a little less than what is free."""
        free = os.statvfs(self.path)
        return max(0, free.f_bavail - 16) * free.f_frsize

    def break_down(self) -> None:
        """Whatever is read or written but the file system's own structures fails with EIO."""
        self._limit(KEPT_BYTES)

    def mend(self) -> None:
        """It works again, and what it had is there."""
        self._limit(0)

    def run_dry(self) -> None:
        """What was not written before can't be written, though its room was promised: a thin pool that is full."""
        used = os.statvfs(self.memory)
        hosts.resize_small_disk(self.memory, (used.f_blocks - used.f_bfree) * used.f_frsize)

    def refresh(self) -> None:
        """The pool has room again."""
        hosts.resize_small_disk(self.memory, 2 * self.size_bytes)

    def turn_read_only(self) -> None:
        """What the kernel does when the file system meets an error of its own. It lasts until it is mounted anew."""
        Path("/sys/fs/ext4", Path(self.device).name, "trigger_fs_error").write_text("as a test")

    def _limit(self, size_bytes: int) -> None:
        """Ends the device after so many bytes; 0 is all of it. What lies beyond stays as it is."""
        status = bytearray(LOOP_STATUS_BYTES)
        device = os.open(self.device, os.O_RDWR)
        try:
            fcntl.ioctl(device, LOOP_GET_STATUS64, status)
            struct.pack_into("<Q", status, LOOP_SIZE_LIMIT_AT, size_bytes)
            fcntl.ioctl(device, LOOP_SET_STATUS64, status)
        finally:
            os.close(device)
