"""Open a model package, a zip or the same as a folder, without trusting it.

Everything that is wrong with its listing is refused at once, before a byte is written; contents are read as bounded
streams, so memory stays flat whatever a member holds.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO, Protocol

from convertor.archive import LFS_POINTER, Archive
from convertor.errors import RefusedError, refuse_if
from convertor.folder import Folder
from convertor.listing import Limits, Listing, shown
from convertor.transfer import Flusher, Hasher

MANIFEST = "manifest.json"
_CHUNK = 1 << 20
_NAMES_SHOWN = 5


class _Source(Protocol):
    def open(self, name: str) -> io.RawIOBase: ...
    def crc(self, name: str) -> int | None: ...
    def close(self) -> None: ...


class Package:
    """An open package; a context manager.

    Attributes:
        path: As it was given.
        stem: The file's name without its suffix, or the folder's name: the model's name if nothing else says it.
        members: Name -> size in bytes, files only, litter left out. Names are relative to where manifest.json lies.
    """

    def __init__(self, path: Path, source: _Source, members: Mapping[str, int], prefix: str) -> None:
        self.path = path
        self.stem = Path(os.path.abspath(path)).name if path.is_dir() else path.stem  # noqa: PTH100 - "." has no name
        self.members: Mapping[str, int] = MappingProxyType(dict(members))
        self._source = source
        self._prefix = prefix

    def __enter__(self) -> Package:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    def open(self, name: str) -> BinaryIO:
        """Return a member's content as a stream; it is seekable where that costs nothing.

        Raises:
            RefusedError: There is no such member, or it is damaged; also while reading.
        """
        return io.BufferedReader(self._raw(name), _CHUNK // 16)

    def head(self, name: str, size: int) -> bytes:
        """Return a member's first `size` bytes, fewer if it is shorter. Raises RefusedError as `open` does."""
        with self.open(name) as stream:
            return stream.read(size)

    def read(self, name: str, limit: int) -> bytes:
        """Return a member's whole content.

        Raises:
            RefusedError: It is larger than `limit` bytes, or as `open`, or damaged.
        """
        size = self.members.get(name, 0)
        if size > limit:
            raise RefusedError(
                f"{self._say(name)}: has {size} bytes, at most {limit} are read; check that it is the right file"
            )
        chunks: list[bytes] = []
        self._stream(name, chunks.append)
        return b"".join(chunks)

    def copy(self, name: str, destination: Path, progress: Callable[[int], None] | None = None) -> str:
        """Write a member to a new file with mode 0644, not yet synced to the disk.

        Args:
            name: The member.
            destination: The file, which must not exist; removed again if anything fails.
            progress: Called with the number of bytes just written.

        Returns:
            The content's SHA-256 in hex.

        Raises:
            RefusedError: As `open`, or the content is not what the package declares (size, checksum).
            OSError: The destination cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with io.FileIO(os.open(destination, flags, 0o600), "wb") as target:
            try:
                digest = self._copy(name, target, progress)
                os.fchmod(target.fileno(), 0o644)
            except BaseException:
                destination.unlink()
                raise
        return digest

    def _copy(self, name: str, target: io.FileIO, progress: Callable[[int], None] | None) -> str:
        flusher = Flusher(target.fileno())

        def write(chunk: bytes) -> None:
            view = memoryview(chunk)
            while view:
                view = view[target.write(view) :]
            flusher.wrote(len(chunk))
            if progress:
                progress(len(chunk))

        try:
            return self._stream(name, write)
        finally:
            flusher.end()

    def _stream(self, name: str, consume: Callable[[bytes], object]) -> str:
        """Pass a member's content on in chunks, checked against declared size and checksum; return its SHA-256."""
        raw, size, done = self._raw(name), self.members[name], 0
        with raw, Hasher(self._source.crc(self._prefix + name)) as hasher:
            while chunk := raw.read(_CHUNK):
                done += len(chunk)
                if done > size:
                    break
                hasher.update(chunk)
                consume(chunk)
        if done != size:
            raise RefusedError(
                f"{self._say(name)}: has {'more' if done > size else f'{done}'} bytes, expected {size}; start again"
            )
        if not hasher.intact():
            raise RefusedError(f"{self._say(name)}: is damaged in the package (bad CRC-32); copy or download it again")
        return hasher.hexdigest()

    def _raw(self, name: str) -> io.RawIOBase:
        if name not in self.members:
            raise RefusedError(f"{self._say(name)}: is not in the package; {_listed(self.members)}")
        return self._source.open(self._prefix + name)

    def _say(self, name: str) -> str:
        return f"{self.path.name}: {shown(name)}"


def open_package(path: Path, limits: Limits | None = None) -> Package:
    """Open a package and check its listing.

    Args:
        path: A zip, or a folder with the same content; manifest.json lies at its root or in its single top folder.
        limits: Bounds on what is taken; the defaults if None.

    Raises:
        RefusedError: It cannot be used; every problem of the listing, one line each.
    """
    listing = Listing(limits or Limits())
    source = _source(path, listing)
    try:
        listing.finish()
        refuse_if(listing.problems, path.name)
        prefix = _prefix(path, listing.files)
    except BaseException:
        source.close()
        raise
    return Package(path, source, {name[len(prefix) :]: size for name, size in listing.files.items()}, prefix)


def is_lfs_pointer(data: bytes) -> bool:
    """Say whether a file that begins with `data` is a Git LFS pointer instead of the content it stands for."""
    return data.startswith(LFS_POINTER)


def _source(path: Path, listing: Listing) -> _Source:
    try:
        if path.is_dir():
            return Folder(path, listing)
        if path.is_file():
            return Archive(path, listing)
    except OSError as error:
        raise RefusedError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    if path.exists():
        raise RefusedError(f"{path}: is neither a file nor a folder; give a zip or a folder")
    raise RefusedError(f"{path}: does not exist; check the path")


def _prefix(path: Path, files: Mapping[str, int]) -> str:
    """Return "" or "<single top folder>/", wherever manifest.json lies."""
    tops = {name.partition("/")[0] for name in files}
    prefixes = ["", *(f"{top}/" for top in tops if len(tops) == 1)]
    for prefix in prefixes:
        if prefix + MANIFEST in files:
            return prefix
    raise RefusedError(
        f"{path.name}: {MANIFEST}: not found at the root or in a single top folder; {_listed(files)}; "
        "put it beside the artifact"
    )


def _listed(names: Mapping[str, int]) -> str:
    if not names:
        return "there are no files in it"
    first = sorted(names, key=lambda name: (name.count("/"), name))[:_NAMES_SHOWN]
    rest = len(names) - len(first)
    return f"it holds {', '.join(shown(name) for name in first)}{f' and {rest} more' if rest else ''}"
