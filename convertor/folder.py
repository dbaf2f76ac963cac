"""Read a package that is a folder: its files listed and checked, links never followed."""

from __future__ import annotations

import errno
import io
import os
import stat
from itertools import islice
from pathlib import Path

from convertor.errors import RefusedError
from convertor.listing import Kind, Listing, is_litter, shown


class Folder:
    """An open folder.

    Args:
        path: The folder; may itself be reached through a link.
        listing: Takes its members and their problems.
    """

    def __init__(self, path: Path, listing: Listing) -> None:
        self._root = Path(os.path.realpath(path))
        self._left = listing.limits.members
        self._list(listing, "")
        if self._left < 0:
            listing.problems.append(
                f"has more than {listing.limits.members} files and folders; "
                "keep only the manifest and the artifact in it"
            )

    def close(self) -> None:
        """Do nothing: a folder holds nothing open."""

    def crc(self, name: str) -> int | None:
        """Return None: a folder keeps no checksums."""

    def open(self, name: str) -> io.RawIOBase:
        """Return a file's content.

        Raises:
            RefusedError: It cannot be read, or has become a link or a special file since it was listed.
        """
        path, where = self._root / name, f"{self._root.name}: {shown(name)}"
        if os.path.realpath(path) != str(path):
            raise RefusedError(f"{where}: has become a link since it was listed; put the file itself there")
        try:
            # Without O_NONBLOCK, opening a pipe that took the file's place would wait for ever.
            file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            raise RefusedError(f"{where}: cannot be read ({error.strerror}); check its permissions") from error
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise RefusedError(f"{where}: is no regular file any more; start again")
        return file

    def _list(self, listing: Listing, folder: str) -> None:
        try:
            with os.scandir(self._root / folder) as found:
                entries = sorted(islice(found, self._left + 1), key=lambda entry: entry.name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG):
                raise
            listing.problems.append(
                f"{shown(folder) or '.'}: cannot be listed ({error.strerror}); check its permissions"
            )
            return
        for entry in entries:
            self._left -= 1
            if self._left < 0:
                return
            if is_litter([entry.name]):
                continue
            name = f"{folder}/{entry.name}" if folder else entry.name
            kind, size = _entry(entry)
            known = len(listing.problems)
            listing.add(name, kind, size)
            if kind == "folder" and len(listing.problems) == known:
                self._list(listing, name)


def _entry(entry: os.DirEntry[str]) -> tuple[Kind, int]:
    status = entry.stat(follow_symlinks=False)
    form = stat.S_IFMT(status.st_mode)
    if form == stat.S_IFREG:
        return "file", status.st_size
    return ("folder" if form == stat.S_IFDIR else "link" if form == stat.S_IFLNK else "special"), 0
