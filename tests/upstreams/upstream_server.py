"""What the scripts in this folder share: free ports, random secrets, one supervisor per server, clean stops.

A script calls `main(...)` with a `Server`. Subcommands:

    install      installs the server; exits 77 and says why where this machine does not allow it
    start DIR    starts it with its data under DIR, waits until it serves, prints (and writes to DIR/env) how to reach it
    stop DIR     ends it and removes DIR

`start` is idempotent: where a server of DIR runs already, it prints its env again. Everything listens on 127.0.0.1.
"""

import abc
import ctypes
import fcntl
import os
import pathlib
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

SKIPPED = 77
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("BLOCKGATE_CACHE", REPOSITORY / ".cache"))
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 2
RESTARTS_MAX = 100


class Skip(Exception):
    """This machine does not allow what is asked."""


class Server(abc.ABC):
    """One kind of server: how it is installed, set up and run."""

    name: str
    """For messages and the environment: `BLOCKGATE_TEST_<NAME>…`."""
    region = "us-east-1"

    @abc.abstractmethod
    def install(self) -> None:
        """Brings what is needed to run; raises `Skip` where that is impossible."""

    @abc.abstractmethod
    def installed(self) -> bool:
        """Whether `install` has nothing to do."""

    @abc.abstractmethod
    def run(self, home: pathlib.Path, access_key: str, secret_key: str, children: "Children") -> int:
        """Starts all processes of the server and returns the port of its S3 listener once it serves."""


class Children:
    """The processes of one server. They end with the supervisor, whatever happens to it."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.restartable: list[tuple[str, list[str], dict[str, str]]] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts = 0

    def start(self, name: str, command: list[str], env: dict[str, str] | None = None, *, restart: bool = False) -> None:
        """Starts a process that stays in the foreground; its output goes to DIR/NAME.log."""
        if restart and not any(name == known for known, _, _ in self.restartable):
            self.restartable.append((name, command, env or {}))
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.home,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )

    def watch(self) -> None:
        """Restarts what fell over and may be restarted; ends everything when something else ended."""
        while True:
            for name, process in list(self.processes.items()):
                if process.poll() is None:
                    continue
                again = [entry for entry in self.restartable if entry[0] == name]
                self.restarts += 1
                if not again or self.restarts > RESTARTS_MAX:
                    print(f"{name} ended with {process.returncode}", flush=True)
                    return
                print(f"{name} ended with {process.returncode}: restarted", flush=True)
                time.sleep(0.2)
                self.start(name, *again[0][1:])
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends all processes, the last started first."""
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, below those that the kernel gives to outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def wait_until(what: str, ready: Callable[[], bool], timeout_s: float = READY_TIMEOUT_S) -> None:
    """Asks `ready()` until it is true."""
    until = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not ready after {timeout_s:.0f} s")
        time.sleep(0.1)


def listening(port: int) -> bool:
    """Whether someone accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def as_root(command: list[str]) -> None:
    """Runs a command as root, by sudo where needed; raises `Skip` where it can't be."""
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            raise Skip(f"`{' '.join(command)}` needs root, and there is no sudo")
        command = ["sudo", "-n", *command]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, check=True, env=env, stdout=sys.stderr, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skip(f"`{' '.join(command)}` failed: {error}") from error


# How a server is kept: a supervisor process that holds the lock DIR/lock as long as it lives.


def _held(home: pathlib.Path) -> bool:
    try:
        with (home / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _supervise(server: Server, home: pathlib.Path, lock: IO[str]) -> None:
    """The supervisor's life: set up, write DIR/env, watch until told to end."""

    def told_to_end(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, told_to_end)
    children = Children(home)
    try:
        lock.write(str(os.getpid()))
        lock.flush()
        access_key, secret_key = secrets.token_hex(10).upper(), secrets.token_urlsafe(30)
        port = server.run(home, access_key, secret_key, children)
        prefix = f"BLOCKGATE_TEST_{server.name.upper()}"
        env = home / "env.tmp"
        env.touch(mode=0o600)
        env.write_text(
            f"{prefix}=http://127.0.0.1:{port}\n"
            f"{prefix}_ACCESS_KEY={access_key}\n"
            f"{prefix}_SECRET_KEY={secret_key}\n"
            f"{prefix}_REGION={server.region}\n"
        )
        env.rename(home / "env")
        children.watch()
    finally:
        (home / "env").unlink(missing_ok=True)
        children.stop()


def _start(server: Server, home: pathlib.Path) -> None:
    if not server.installed():
        server.install()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _held(home):
        for old in home.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        lock = (home / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), False)
        if os.fork() == 0:
            os.setsid()
            with (home / "supervisor.log").open("w") as log, open(os.devnull) as null:
                os.dup2(null.fileno(), 0)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            status = 1
            try:
                _supervise(server, home, lock)
                status = 0
            except BaseException:  # the log is the only place left to say it
                import traceback

                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status)
        lock.close()
    env = home / "env"
    wait_until(server.name, lambda: env.exists() or not _held(home), READY_TIMEOUT_S * 2)
    if not env.exists():
        sys.stderr.write((home / "supervisor.log").read_text())
        raise SystemExit(f"{server.name} did not start; its logs are in {home}")
    sys.stdout.write(env.read_text())


def _stop(server: Server, home: pathlib.Path) -> None:
    if _held(home):
        os.kill(int((home / "lock").read_text()), signal.SIGTERM)
        wait_until(f"the end of {server.name}", lambda: not _held(home), STOP_TIMEOUT_S * 15)
    shutil.rmtree(home, ignore_errors=True)


def main(server: Server) -> None:
    """Reads the command line and does what it says."""
    try:
        match sys.argv[1:]:
            case ["install"]:
                if not server.installed():
                    server.install()
            case ["start", home]:
                _start(server, pathlib.Path(home).resolve())
            case ["stop", home]:
                _stop(server, pathlib.Path(home).resolve())
            case _:
                raise SystemExit(f"usage: {sys.argv[0]} install | start DIR | stop DIR")
    except Skip as reason:
        sys.stderr.write(f"SKIPPED: {server.name} can't be installed here: {reason}\n")
        raise SystemExit(SKIPPED) from None
