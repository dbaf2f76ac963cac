"""What `open_package` takes, what it refuses and how it says so."""

import errno
import hashlib
import os
import stat
import struct
import threading
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convertor import transfer
from convertor.errors import RefusedError
from convertor.listing import Limits
from convertor.package import is_lfs_pointer, open_package

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
Entry = tuple[str | zipfile.ZipInfo, bytes]
MANIFEST: Entry = ("manifest.json", b"{}")


def make_zip(path: Path, *entries: Entry, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name) if isinstance(name, str) else name
            archive.writestr(info, content, compress_type=method)
    return path


def entry(name: str, mode: int = 0, **fields: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def make_folder(path: Path, *entries: tuple[str, bytes]) -> Path:
    for name, content in entries:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def refused(path: Path, limits: Limits | None = None) -> list[str]:
    with pytest.raises(RefusedError) as caught:
        open_package(path, limits)
    return caught.value.lines()


def patch_directory(path: Path, name: str, offset: int, value: bytes) -> None:
    """Overwrite bytes of one member's record in the table of contents."""
    data = bytearray(path.read_bytes())
    start = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    data[start + offset : start + offset + len(value)] = value
    path.write_bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("wrapper", ["", "my-model/"], ids=["flat", "wrapped"])
def test_zip_reads_back_what_was_packed(tmp_path: Path, method: int, wrapper: str) -> None:
    weights = os.urandom(3_000_001)
    path = make_zip(
        tmp_path / "line 3.v2.zip",
        (f"{wrapper}manifest.json", b'{"a": 1}'),
        (f"{wrapper}yolo/model.onnx", weights),
        (f"{wrapper}empty.txt", b""),
        method=method,
    )
    steps: list[int] = []
    with open_package(path) as package:
        assert package.stem == "line 3.v2"
        assert package.members == {"manifest.json": 8, "yolo/model.onnx": 3_000_001, "empty.txt": 0}
        assert package.read("manifest.json", 8) == b'{"a": 1}'
        assert package.head("yolo/model.onnx", 10) == weights[:10]
        assert package.head("manifest.json", 100) == b'{"a": 1}'
        with package.open("yolo/model.onnx") as stream:
            assert stream.read(70_000) + stream.read() == weights
        digest = package.copy("yolo/model.onnx", tmp_path / "copy", steps.append)
        assert package.copy("empty.txt", tmp_path / "empty") == hashlib.sha256(b"").hexdigest()
    assert digest == hashlib.sha256(weights).hexdigest()
    assert (tmp_path / "copy").read_bytes() == weights
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o644
    assert sum(steps) == len(weights)
    assert len(steps) > 1


@pytest.mark.parametrize("wrapper", ["", "my-model/"], ids=["flat", "wrapped"])
def test_folder_reads_back_what_is_in_it(tmp_path: Path, wrapper: str) -> None:
    path = make_folder(tmp_path / "line.v2", (f"{wrapper}manifest.json", b"{}"), (f"{wrapper}dlr/compiled.so", b"code"))
    with open_package(path) as package:
        assert package.stem == "line.v2"
        assert package.members == {"manifest.json": 2, "dlr/compiled.so": 4}
        with package.open("dlr/compiled.so") as stream:
            assert stream.read() == b"code"
        assert package.copy("dlr/compiled.so", tmp_path / "copy") == hashlib.sha256(b"code").hexdigest()


def test_folder_named_dot_has_its_own_name_as_stem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_folder(tmp_path / "belt", ("manifest.json", b"{}")))
    with open_package(Path()) as package:
        assert package.stem == "belt"


def test_folder_behind_a_link_is_taken(tmp_path: Path) -> None:
    make_folder(tmp_path / "belt", ("manifest.json", b"{}"))
    (tmp_path / "latest").symlink_to("belt")
    with open_package(tmp_path / "latest") as package:
        assert package.read("manifest.json", 10) == b"{}"


def test_stored_member_can_be_skipped_through(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", bytes(range(256)) * 1000))
    with open_package(path) as package, package.open("model.onnx") as stream:
        assert stream.seekable()
        stream.seek(255_999)
        assert stream.read() == b"\xff"
        stream.seek(-256, os.SEEK_END)
        assert stream.read(2) == b"\x00\x01"
        assert stream.seek(300_000) == 300_000
        assert stream.read(5) == b""


LITTER = [
    ("__MACOSX/._manifest.json", b"x"),
    (".DS_Store", b"x"),
    ("model/.DS_Store", b"x"),
    ("model/._weights", b"x"),
    ("Thumbs.db", b"x"),
    ("desktop.ini", b"x"),
    ("model/Icon\r", b""),
    ("model/.git/config", b"x"),
]


def test_litter_is_ignored(tmp_path: Path) -> None:
    wanted = [("model/manifest.json", b"{}"), ("model/w.onnx", b"w")]
    with open_package(make_zip(tmp_path / "p.zip", *LITTER, *wanted)) as package:
        assert package.members == {"manifest.json": 2, "w.onnx": 1}
    with open_package(make_folder(tmp_path / "p", *LITTER, *wanted)) as package:
        assert package.members == {"manifest.json": 2, "w.onnx": 1}


def test_litter_folders_of_a_folder_are_not_entered(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "p", ("manifest.json", b"{}"), *((f".git/{n}", b"") for n in range(9)))
    with open_package(path, Limits(members=2)) as package:
        assert package.members == {"manifest.json": 2}


def test_extra_field_of_a_local_header_is_passed_over(tmp_path: Path) -> None:
    info = entry("model.onnx")
    info.extra = struct.pack("<2H4s", 0x7875, 4, b"\1\0\0\0")
    with open_package(make_zip(tmp_path / "p.zip", MANIFEST, (info, b"weights"))) as package:
        assert package.read("model.onnx", 7) == b"weights"


def test_names_of_other_packers_are_understood(tmp_path: Path) -> None:
    path = make_zip(
        tmp_path / "p.zip", ("./", b""), ("./manifest.json", b"{}"), ("yolo\\", b""), ("yolo\\m.onnx", b"w")
    )
    with open_package(path) as package:
        assert package.members == {"manifest.json": 2, "yolo/m.onnx": 1}
        assert package.read("yolo/m.onnx", 1) == b"w"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("../evil", "climbs out", id="parent"),
        pytest.param("a/../../b", "climbs out", id="parent-inside"),
        pytest.param("a/../b", "climbs out", id="parent-harmless"),
        pytest.param("..\\evil", "climbs out", id="backslash-parent"),
        pytest.param("__MACOSX/../../evil", "climbs out", id="litter-parent"),
        pytest.param("/etc/passwd", "absolute", id="absolute"),
        pytest.param("\\\\host\\share", "absolute", id="unc"),
        pytest.param("C:\\x", "drive letter", id="drive"),
        pytest.param("c:x", "drive letter", id="drive-relative"),
        pytest.param("a\nb", "control", id="newline"),
        pytest.param("a\x1b[31mb", "control", id="escape"),
        pytest.param("a\u2028b", "control", id="line-separator"),
        pytest.param("n" * 256, "longer than", id="long-part"),
        pytest.param("/".join(["n" * 100] * 8), "longer than", id="long-name"),
        pytest.param("manifest.json", "twice", id="duplicate"),
        pytest.param("./manifest.json", "twice", id="duplicate-dot"),
        pytest.param("Manifest.JSON", "only in case", id="duplicate-case"),
        pytest.param("manifest.json/x", "both a file and a folder", id="file-and-folder"),
        pytest.param("MANIFEST.json/", "both a file and a folder", id="file-and-folder-case"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_unsafe_names_are_refused(tmp_path: Path, name: str, words: str) -> None:
    lines = refused(make_zip(tmp_path / "p.zip", MANIFEST, (name, b"")))
    assert len(lines) == 1
    assert words in lines[0]
    assert lines[0].startswith("p.zip: ")
    assert lines[0].isprintable()


def test_names_equal_but_for_the_encoding_of_an_accent_are_refused(tmp_path: Path) -> None:
    lines = refused(make_zip(tmp_path / "p.zip", MANIFEST, ("\u00e9", b""), ("e\u0301", b"")))
    assert "accents" in lines[0]


def test_name_with_nul_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model_onnx", b"w"))
    path.write_bytes(path.read_bytes().replace(b"model_onnx", b"model\0onnx"))
    assert "control" in refused(path)[0]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        pytest.param(entry("m", stat.S_IFLNK | 0o777), "is a link", id="link"),
        pytest.param(entry("m/", stat.S_IFLNK | 0o777), "is a link", id="link-named-folder"),
        pytest.param(entry("m", stat.S_IFIFO | 0o644), "neither a file nor a folder", id="pipe"),
        pytest.param(entry("m", stat.S_IFCHR | 0o644), "neither a file nor a folder", id="device"),
    ],
)
def test_links_and_special_members_are_refused(tmp_path: Path, info: zipfile.ZipInfo, words: str) -> None:
    assert words in refused(make_zip(tmp_path / "p.zip", MANIFEST, (info, b"/etc"), ("m/passwd", b"x")))[0]


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        pytest.param(8, b"\x01", "encrypted", id="encrypted"),
        pytest.param(8, b"\x40", "encrypted", id="strongly-encrypted"),
        pytest.param(8, b"\x20", "expected stored or deflate", id="patched-data"),
        pytest.param(10, b"\x0c", "bzip2", id="bzip2"),
        pytest.param(10, b"\x0e", "LZMA", id="lzma"),
        pytest.param(10, b"\x4d", "method 77", id="unknown-method"),
        pytest.param(24, struct.pack("<L", 99), "two sizes, 99 and 7", id="stored-sizes-differ"),
        pytest.param(20, struct.pack("<2L", 900, 900), "overlap", id="past-the-directory"),
    ],
)
def test_members_that_cannot_be_unpacked_are_refused(tmp_path: Path, offset: int, value: bytes, words: str) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", b"weights"))
    patch_directory(path, "model.onnx", offset, value)
    assert words in refused(path)[0]


def test_two_members_on_the_same_bytes_are_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("a.bin", b"same"), ("b.bin", b"same"))
    start = path.read_bytes().index(b"a.bin") - 30
    patch_directory(path, "b.bin", 42, struct.pack("<L", start))
    assert "overlap" in refused(path)[0]


def test_bomb_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", bytes(11 << 20)), method=zipfile.ZIP_DEFLATED)
    assert "zip bomb" in refused(path)[0]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param(Limits(members=2), "3 members, at most 2", id="count"),
        pytest.param(Limits(total_bytes=10), "unpacks to 11 bytes, at most 10", id="total"),
        pytest.param(Limits(directory_bytes=100), "table of contents of", id="directory"),
    ],
)
def test_limits_of_a_zip(tmp_path: Path, limits: Limits, words: str) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", b"weights"), ("a", b"12"))
    assert words in refused(path, limits)[0]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param(Limits(members=2), "more than 2 files", id="count"),
        pytest.param(Limits(total_bytes=10), "unpacks to 11 bytes, at most 10", id="total"),
    ],
)
def test_limits_of_a_folder(tmp_path: Path, limits: Limits, words: str) -> None:
    path = make_folder(tmp_path / "p", ("manifest.json", b"{}"), ("model.onnx", b"weights"), ("a", b"12"))
    assert words in refused(path, limits)[0]


@pytest.mark.parametrize("actual", [200_000, 50], ids=["longer", "shorter"])
def test_declared_size_that_lies_is_refused_while_copying(tmp_path: Path, actual: int) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", bytes(actual)), method=zipfile.ZIP_DEFLATED)
    patch_directory(path, "model.onnx", 24, struct.pack("<L", 100))
    with open_package(path) as package, pytest.raises(RefusedError, match=r"^p\.zip: model\.onnx: "):
        package.copy("model.onnx", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("offset", [16, 32], ids=["checksum", "name-in-the-local-header"])
def test_damaged_member_is_named_and_leaves_nothing(tmp_path: Path, method: int, offset: int) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", os.urandom(100_000)), method=method)
    data = bytearray(path.read_bytes())
    start = data.rindex(b"PK\x01\x02") if offset == 16 else data.index(b"model.onnx") - 32
    data[start + offset] ^= 0xFF
    path.write_bytes(data)
    with open_package(path) as package:
        with pytest.raises(RefusedError, match=r"^p\.zip: model\.onnx: is damaged"):
            package.copy("model.onnx", tmp_path / "copy")
        with pytest.raises(RefusedError, match=r"^p\.zip: model\.onnx: is damaged"):
            package.read("model.onnx", 100_000)
        assert package.read("manifest.json", 2) == b"{}"
    assert not (tmp_path / "copy").exists()


def test_damaged_deflate_stream_is_refused_while_reading(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", b"w" * 1000), method=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    data[data.index(b"model.onnx") + 10] = 0xFF
    path.write_bytes(data)
    with (
        open_package(path) as package,
        package.open("model.onnx") as stream,
        pytest.raises(RefusedError, match="damaged"),
    ):
        stream.read()


def test_read_is_bounded_and_names_are_checked(tmp_path: Path) -> None:
    with open_package(make_zip(tmp_path / "p.zip", MANIFEST, ("a.txt", b"12345"))) as package:
        with pytest.raises(RefusedError, match=r"p\.zip: a\.txt: has 5 bytes, at most 4"):
            package.read("a.txt", 4)
        with pytest.raises(RefusedError, match=r"p\.zip: b\.txt: is not in the package; it holds a\.txt, manifest"):
            package.read("b.txt", 4)


def test_copy_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to("elsewhere")
    with open_package(make_zip(tmp_path / "p.zip", MANIFEST)) as package:
        for name in ("there", "link"):
            with pytest.raises(FileExistsError):
                package.copy("manifest.json", tmp_path / name)
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("broken", [False, True], ids=["sound-disk", "broken-disk"])
def test_large_copy_is_flushed_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    flushed = threading.Event()

    def fsync(_: int) -> None:
        flushed.set()
        if broken:
            raise OSError(errno.EIO, "Input/output error")

    def wait(_: int) -> None:
        assert flushed.wait(30)

    monkeypatch.setattr(transfer, "_FLUSH", 1 << 20)
    monkeypatch.setattr(os, "fsync", fsync)
    path = make_zip(tmp_path / "p.zip", MANIFEST, ("model.onnx", bytes(3 << 20)))
    with open_package(path) as package:
        if broken:
            with pytest.raises(OSError, match="Input/output error"):
                package.copy("model.onnx", tmp_path / "copy", wait)
        else:
            package.copy("model.onnx", tmp_path / "copy", wait)
    assert (tmp_path / "copy").exists() != broken


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "is empty (0 bytes); copy or download it again", id="empty"),
        pytest.param(POINTER, "Git LFS pointer, not the package itself; run `git lfs pull`", id="lfs"),
        pytest.param(b"PK\x03\x04" + bytes(99), "damaged or incomplete zip", id="truncated"),
        pytest.param(b"\x1f\x8b\x08" + bytes(99), "gzip", id="gzip"),
        pytest.param(b"<!DOCTYPE html>", "web page", id="html"),
        pytest.param(b"\x08\x08\x12\x07pytorch", "is not a zip; give a zip or a folder", id="onnx"),
    ],
)
def test_file_that_is_no_zip(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(content)
    lines = refused(path)
    assert len(lines) == 1
    assert lines[0].startswith(f"{path}: ")
    assert words in lines[0]


def test_path_that_is_no_package(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "does not exist" in refused(tmp_path / "none.zip")[0]
    assert "neither a file nor a folder" in refused(tmp_path / "pipe")[0]
    assert "does not exist" in refused(make_folder(tmp_path, ("f", b"")) / "f" / "x.zip")[0]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        pytest.param([], "there are no files in it", id="empty"),
        pytest.param([("a/b/manifest.json", b"")], "it holds a/b/manifest.json; put it", id="too-deep"),
        pytest.param([("a/manifest.json", b""), ("b", b"")], "it holds b, a/manifest.json; put it", id="two-tops"),
        pytest.param([(f"{n}.txt", b"") for n in range(9)], "3.txt, 4.txt and 4 more; put it", id="many"),
    ],
)
def test_missing_manifest_says_where_it_was_looked_for(tmp_path: Path, entries: list[Entry], words: str) -> None:
    (line,) = refused(make_zip(tmp_path / "p.zip", *entries))
    assert line.startswith("p.zip: manifest.json: not found at the root or in a single top folder; ")
    assert words in line


def test_links_pipes_and_names_in_a_folder_are_refused_together(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "p", ("manifest.json", b"{}"), ("back\\slash", b""))
    (path / "file").symlink_to("manifest.json")
    (path / "folder").symlink_to("/etc")
    os.mkfifo(path / "pipe")
    lines = refused(path)
    assert [line.split(": ")[:2] for line in lines] == [["p", n] for n in ("back\\slash", "file", "folder", "pipe")]


@pytest.mark.parametrize("swapped", ["sub", "sub/m.onnx"], ids=["parent", "file"])
def test_link_put_in_place_after_listing_is_refused(tmp_path: Path, swapped: str) -> None:
    path = make_folder(tmp_path / "p", ("manifest.json", b"{}"), ("sub/m.onnx", b"w"))
    with open_package(path) as package:
        (path / swapped).rename(tmp_path / "moved")
        (path / swapped).symlink_to(tmp_path / "moved")
        with pytest.raises(RefusedError, match="has become a link"):
            package.read("sub/m.onnx", 10)


def test_file_of_a_folder_that_changes_is_refused(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "p", ("manifest.json", b"{}"), ("m.onnx", b"w"), ("gone", b""), ("pipe", b""))
    with open_package(path) as package:
        (path / "m.onnx").write_bytes(b"more")
        (path / "gone").unlink()
        (path / "pipe").unlink()
        os.mkfifo(path / "pipe")
        with pytest.raises(RefusedError, match=r"p: m\.onnx: has more bytes, expected 1"):
            package.copy("m.onnx", tmp_path / "copy")
        with pytest.raises(RefusedError, match="gone: cannot be read"):
            package.open("gone")
        with pytest.raises(RefusedError, match="pipe: is no regular file"):
            package.open("pipe")


def test_many_problems_are_cut_to_twenty_lines(tmp_path: Path) -> None:
    lines = refused(make_zip(tmp_path / "p.zip", MANIFEST, *((f"../{n}", b"") for n in range(30))))
    assert len(lines) == 21
    assert lines[-1] == "... and 10 more"


def test_is_lfs_pointer() -> None:
    assert is_lfs_pointer(POINTER)
    assert not is_lfs_pointer(b"\x08\x08")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_anywhere_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = make_zip(
        tmp_path_factory.mktemp("damage") / "p.zip",
        MANIFEST,
        ("a/model.onnx", b"weights" * 9),
        method=data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])),
    )
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    try:
        with open_package(path) as package:
            for name, size in package.members.items():
                assert len(package.read(name, 1000)) == size
    except RefusedError:
        pass
