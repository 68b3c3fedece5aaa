"""The way from a gateway to its store."""

from pathlib import Path

from lib.gateway import Settings, UpstreamStore
from lib.proxy import Proxy

IMPATIENT: Settings = {"timeout": "2s", "attempt_timeout": "1s", "connect_timeout": "500ms"}
"""Outages are noticed soon."""
SLOW_PAUSE_S = 0.02
"""Of each 64 KiB: some 3 MB/s on each connection."""


class Line:
    """What lies between a gateway and its store, and can be cut."""

    def __init__(self, store: UpstreamStore, timeouts: Settings = IMPATIENT) -> None:
        settings = dict(store.settings)
        self.proxy: Proxy | None = None
        if store.name == "fs":
            self.path = Path(settings["path"])
        else:
            host, _, port = settings["endpoint"].removeprefix("http://").partition(":")
            self.proxy = Proxy((host, int(port)))
            settings |= {"endpoint": f"http://127.0.0.1:{self.proxy.port}", **timeouts}
        self.store = UpstreamStore(store.name, settings, store.secrets)

    def cut(self) -> None:
        """The store is gone."""
        if self.proxy:
            self.proxy.cut()
        else:
            self.path.rename(self.path.with_name("away"))

    def mend(self) -> None:
        """The store is back."""
        if self.proxy:
            self.proxy.mend()
        else:
            self.path.with_name("away").rename(self.path)
