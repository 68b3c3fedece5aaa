"""Names and mounts that only this test run sees.

awscrt takes the bucket's host name from the URL and asks the resolver for it, so virtual hosts need entries in /etc/hosts. A mount
namespace of our own has them without touching the machine's; it also lets a test mount a small disk and fill it.
"""

import ctypes
import os
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)
_file: Path | None = None
_refusal = "private_namespace() was not called"


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2), in our own namespace."""
    arguments = [text.encode() if text is not None else None for text in (source, target, kind)]
    _check(
        _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None),
        f"mounting {source} on {target}",
    )


def private_namespace() -> None:
    """Moves this process, and all that it will start, into a mount namespace with its own /etc/hosts.

    Where that is not allowed, `refusal` says why.
    """
    global _file, _refusal
    try:
        uid, gid = os.getuid(), os.getgid()
        _check(_libc.unshare(CLONE_NEWNS | (0 if uid == 0 else CLONE_NEWUSER)), "unshare")
        if uid != 0:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        handle, name = tempfile.mkstemp(prefix="blockgate-hosts-")
        os.write(handle, Path("/etc/hosts").read_bytes() + b"\n")
        os.close(handle)
        mount(name, "/etc/hosts", None, MS_BIND)
        os.unlink(name)
    except OSError as error:
        _refusal = f"no mount namespace of our own here ({error})"
    else:
        _file, _refusal = Path("/etc/hosts"), ""


def refusal() -> str:
    """Why there are no private names and mounts; empty when there are."""
    return _refusal


def add(name: str, address: str = "127.0.0.1") -> None:
    """Makes a host name resolve."""
    if not _file:
        raise OSError(_refusal)
    with _file.open("a") as hosts:
        hosts.write(f"{address} {name}\n")


def mount_small_disk(path: Path, size_bytes: int) -> None:
    """Mounts an empty disk in memory, of that size."""
    if not _file:
        raise OSError(_refusal)
    path.mkdir(parents=True, exist_ok=True)
    mount("tmpfs", str(path), "tmpfs", data=f"size={size_bytes}")


def resize_small_disk(path: Path, size_bytes: int) -> None:
    """Gives such a disk another size."""
    mount("tmpfs", str(path), flags=MS_REMOUNT, data=f"size={size_bytes}")


def unmount(path: Path) -> None:
    """Undoes a mount."""
    _check(_libc.umount2(str(path).encode(), 2), f"unmounting {path}")
