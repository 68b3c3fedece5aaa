"""Every gateway whose log is to be scanned."""

from lib.gateway import Gateway

LOGS: list[Gateway] = []
