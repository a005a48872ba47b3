"""Images, sounds and other binary data that a tool returned: files with a handle, never base64 in a string."""

from __future__ import annotations

import os
from binascii import a2b_base64
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "/tmp/media"

PLACEHOLDER = "$media"
"""The only key of an object that stands for a file. Its value is the index in the list of media."""

_ENDINGS = {
    "application/gzip": "gz",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/xml": "xml",
    "application/zip": "zip",
    "audio/flac": "flac",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "text/css": "css",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
    "video/mp4": "mp4",
    "video/webm": "webm",
}

_guard = allocate_lock()
_last = 0


class MediaFile:
    """A file that a tool returned. It works with `open(media)`, and with everything else that takes a path."""

    __slots__ = ("path", "mime", "uri", "size")

    def __init__(self, path: str, mime: str, uri: str | None, size: int) -> None:
        self.path = path
        self.mime = mime
        self.uri = uri
        self.size = size

    def read_bytes(self) -> bytes:
        """The content of the file."""
        with open(self.path, "rb") as file:
            return file.read()

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"MediaFile({self.path!r}, mime={self.mime!r}, size={self.size})"


def restore(value: Any, media: list[dict[str, Any]]) -> Any:
    """Replace the placeholders in `value` (the value itself, or elements of a list) with handles."""
    files: dict[int, MediaFile] = {}

    def replaced(part: Any) -> Any:
        if type(part) is not dict or len(part) != 1:
            return part
        place = part.get(PLACEHOLDER)
        if type(place) is not int or not 0 <= place < len(media):
            return part
        if place not in files:
            files[place] = _save(media[place])
        return files[place]

    if type(value) is list:
        return [replaced(part) for part in value]
    return replaced(value)


def _save(item: dict[str, Any]) -> MediaFile:
    data = a2b_base64(item["data"])
    mime = str(item.get("mime") or "application/octet-stream")
    ending = _ENDINGS.get(mime.split(";", 1)[0].strip().lower(), "bin")
    os.makedirs(FOLDER, exist_ok=True)
    path, descriptor = _new_file(ending)
    with open(descriptor, "wb") as file:
        file.write(data)
    uri = item.get("uri")
    return MediaFile(path, mime, None if uri is None else str(uri), len(data))


def _new_file(ending: str) -> tuple[str, int]:
    global _last
    while True:
        with _guard:
            _last += 1
            path = f"{FOLDER}/{_last}.{ending}"
        try:
            # Other processes of the sandbox create files here too.
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
