"""Read a zip: its members listed and checked, each a bounded stream.

Only stored and deflated members are taken: the standard library unpacks bzip2 and LZMA without a bound on memory.
Stored members are read straight from the file, so that one can seek in them for free; whoever reads one whole
compares its checksum (`Archive.crc`). Deflated members check it themselves at their end.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

from convertor.errors import RefusedError
from convertor.listing import Kind, Limits, Listing, shown

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"  # how every Git LFS pointer file begins
_AGAIN = "copy or download it again"
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RuntimeError)
_ENCRYPTED = 0x1 | 0x40  # general purpose flags 0 and 6; 5 is "patched data"
_PATCHED = 0x20
_LOCAL_HEADER = 30  # its fixed part; name and extra field follow
_METHODS = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 98: "PPMd", 99: "AES"}
# What a file that is no zip begins with, and what to do about it.
_FOREIGN = (
    (LFS_POINTER, "is a Git LFS pointer, not the package itself; run `git lfs pull`"),
    (b"PK\x03\x04", f"is a damaged or incomplete zip; {_AGAIN}"),
    (b"\x1f\x8b", "is a gzip file, expected a zip; unpack it and give the folder"),
    (b"7z\xbc\xaf", "is a 7z archive, expected a zip; unpack it and give the folder"),
    (b"Rar!", "is a RAR archive, expected a zip; unpack it and give the folder"),
    (b"<", "is a web page or XML, expected a zip; download the file itself"),
    (b"", "is not a zip; give a zip or a folder with manifest.json and the artifact in it"),
)


class Archive:
    """An open zip.

    Args:
        path: The file.
        listing: Takes its members and their problems.

    Raises:
        RefusedError: The file is no zip, is damaged, or its table of contents is too large.
    """

    def __init__(self, path: Path, listing: Listing) -> None:
        self._file = _File(path, listing.limits.directory_bytes)
        self._path = path
        self._infos: dict[str, zipfile.ZipInfo] = {}
        try:
            self._zip = _parsed(self._file, path)
            self._list(listing)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; streams that are still open fail from then on."""
        self._zip.close()
        self._file.close()

    def crc(self, name: str) -> int | None:
        """Return the CRC-32 that the content of a stored member has to have; None if its stream checks that."""
        info = self._infos[name]
        return info.CRC if info.compress_type == zipfile.ZIP_STORED else None

    def open(self, name: str) -> io.RawIOBase:
        """Return a member's content; seekable if it is stored.

        Raises:
            RefusedError: Its header does not fit the table of contents; also from the stream, where it is damaged.
        """
        info = self._infos[name]
        where = f"{self._path.name}: {shown(name)}"
        try:
            member = self._zip.open(info)  # compares the local header with the table of contents
            if info.compress_type != zipfile.ZIP_STORED:
                return _Inflated(member, where)
            member.close()
            name_size, extra_size = struct.unpack(
                "<26x2H", os.pread(self._file.fileno(), _LOCAL_HEADER, info.header_offset)
            )
        except _BROKEN as error:
            raise _damaged(where, error) from error
        return _Extent(self._file, info.header_offset + _LOCAL_HEADER + name_size + extra_size, info.file_size)

    def _list(self, listing: Listing) -> None:
        infos = self._zip.infolist()
        if len(infos) > listing.limits.members:
            listing.problems.append(
                f"has {len(infos)} members, at most {listing.limits.members} are taken; "
                "keep only the manifest and the artifact in it"
            )
            return
        for info in infos:
            # The standard library cuts names at a NUL; Windows tools before 2016 separate with backslashes.
            raw = info.orig_filename if "\0" in info.orig_filename else info.filename
            name = listing.add(raw.replace("\\", "/"), _kind(info), info.file_size)
            if name is not None:
                self._infos[name] = info
                problem = _member_problem(info, listing.limits)
                if problem:
                    listing.problems.append(f"{shown(name)}: {problem}")
        if _overlap(infos, self._zip.start_dir):
            listing.problems.append(f"has members that overlap (damaged, or a zip bomb); {_AGAIN}")


class _File(io.FileIO):
    """The zip's file, which reads no more at once than a table of contents may have."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path, "rb")
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._most:
            raise RefusedError(f"{shown(str(self.name))}: has a table of contents of {size} bytes; pack fewer files")
        return super().read(size) or b""


class _Extent(io.RawIOBase):
    """Part of a file: `size` bytes from `start`; independent of every other stream on it."""

    def __init__(self, file: io.FileIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._position = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size - self._position)
        wanted = left if size < 0 else min(size, left)
        data = os.pread(self._file.fileno(), wanted, self._start + self._position)
        self._position += len(data)
        return data

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class _Inflated(io.RawIOBase):
    """A deflated member, unpacked as it is read; its damage is told as RefusedError."""

    def __init__(self, member: IO[bytes], where: str) -> None:
        self._member, self._where = member, where

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._member.read(size)
        except _BROKEN as error:
            raise _damaged(self._where, error) from error

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._member.close()
        super().close()


def _parsed(file: _File, path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _BROKEN as error:
        file.seek(0)
        head = file.read(64)
        if not head:
            raise RefusedError(f"{path}: is empty (0 bytes); {_AGAIN}") from error
        reason = next(reason for magic, reason in _FOREIGN if head.startswith(magic))
        raise RefusedError(f"{path}: {reason}") from error


def _kind(info: zipfile.ZipInfo) -> Kind:
    form = stat.S_IFMT(info.external_attr >> 16)
    if form == stat.S_IFLNK:
        return "link"
    if info.orig_filename.endswith(("/", "\\")) or form == stat.S_IFDIR:
        return "folder"
    return "file" if form in (0, stat.S_IFREG) else "special"


def _member_problem(info: zipfile.ZipInfo, limits: Limits) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted; pack the folder again without a password"
    method = info.compress_type
    if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _PATCHED:
        return f"is packed with {_METHODS.get(method, f'method {method}')}, expected stored or deflate; pack it again"
    if method == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        return f"is stored with two sizes, {info.file_size} and {info.compress_size} bytes; pack the folder again"
    if info.file_size > limits.ratio_from and info.file_size > limits.ratio * info.compress_size:
        return (
            f"unpacks from {info.compress_size} to {info.file_size} bytes, over {limits.ratio} times as much, as a "
            "zip bomb does; store it unpacked (zip -0) if it is real"
        )
    return None


def _overlap(infos: list[zipfile.ZipInfo], end: int) -> bool:
    """Say whether two members, or one and the table of contents at `end`, share bytes (David Fifield's zip bomb)."""
    starts = sorted((info.header_offset, info.compress_size + _LOCAL_HEADER) for info in infos)
    following = [start for start, _ in starts[1:]] + [end]
    return any(start < 0 or start + size > after for (start, size), after in zip(starts, following))


def _damaged(where: str, error: Exception) -> RefusedError:
    return RefusedError(f"{where}: is damaged in the package ({error or 'its data ends early'}); {_AGAIN}")
