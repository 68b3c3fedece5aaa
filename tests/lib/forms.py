"""multipart/form-data."""

import secrets

from lib.raw import Pairs


def form(
    fields: Pairs, data: bytes | None, filename: str = "file.bin", after: Pairs | None = None
) -> tuple[bytes, str]:
    """A form and its content type: fields, the file (if any) and what comes after it."""
    boundary = f"form{secrets.token_hex(12)}"

    def part(name: str, value: bytes, more: str = "") -> bytes:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
        return head.encode() + value + b"\r\n"

    body = b"".join(part(name, value.encode()) for name, value in fields)
    if data is not None:
        body += part("file", data, f'; filename="{filename}"')
    body += b"".join(part(name, value.encode()) for name, value in after or [])
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
