"""A TCP relay that can be made slow, silent or dead: what happens between a gateway and its store on a bad day."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

QUIET_WITHIN_S = 10.0
"""How long a target may work on what it was asked before."""


class Proxy:
    """Relays 127.0.0.1:`port` to a target.

    `hold` lets nothing through until `release`; `cut` refuses and drops everything until `mend`; `pause_s` is how long each
    64 KiB wait on their way.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.open = threading.Event()
        self.open.set()
        self.budget: int | None = None
        self.pause_s = 0.0
        self.clients: set[socket.socket] = set()
        self.servers: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.listener: socket.socket | None = None
        self.port = 0
        self.mend()

    def mend(self) -> None:
        """Accepts connections."""
        self.budget = None
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self.listener = listener
        self._spawn(lambda: self._accept(listener))

    def cut(self) -> None:
        """Drops every connection and refuses new ones; returns when the target has nothing in hand that was asked of it before.

        A call whose caller is gone may be carried out later than calls that others make after it. No client can rule that out,
        and no test here is about it.
        """
        if self.listener:
            # Closing alone leaves a blocked accept() holding the port.
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        self._hang_up(self.clients, socket.SHUT_RDWR)
        self._hang_up(self.servers, socket.SHUT_WR)
        deadline = time.monotonic() + QUIET_WITHIN_S
        while self.servers and time.monotonic() < deadline:
            time.sleep(0.005)
        self._hang_up(self.servers, socket.SHUT_RDWR)

    def _hang_up(self, connections: set[socket.socket], how: int) -> None:
        with self.lock:
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(how)

    def hold(self) -> None:
        """Keeps connections open and says nothing."""
        self.open.clear()

    def release(self) -> None:
        """Undoes `hold`."""
        self.open.set()

    def cut_after(self, count: int) -> None:
        """Lets that many bytes from the target through, then cuts as a crash of the target would, until `mend`."""
        self.budget = count

    def close(self) -> None:
        """Ends it."""
        self.cut()
        self.release()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=10)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.clients.add(client)
                self.servers.add(server)
            self._spawn(lambda c=client, s=server: self._relay(c, s, False))  # type: ignore[misc]
            self._spawn(lambda c=client, s=server: self._relay(s, c, True))  # type: ignore[misc]

    def _relay(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        end = socket.SHUT_RDWR
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.open.wait()
                if self.pause_s:
                    time.sleep(self.pause_s)
                if counted and self.budget is not None:
                    self.budget -= len(data)
                    if self.budget < 0:
                        break
                sink.sendall(data)
            else:
                # The other direction goes on until its own end.
                end = socket.SHUT_WR
        with contextlib.suppress(OSError):
            sink.shutdown(end)
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RD if end == socket.SHUT_WR else end)
        with self.lock:
            self.clients.discard(source)
            self.servers.discard(source)

    @staticmethod
    def _spawn(task: Callable[[], None]) -> None:
        threading.Thread(target=task, daemon=True).start()
