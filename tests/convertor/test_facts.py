"""What is read from ONNX files, which are written here field by field, and what is refused."""

import io
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convertor import protobuf
from convertor.errors import RefusedError
from convertor.facts import OnnxFacts, TensorFact, graph_facts, parse_names, read_onnx_facts
from convertor.package import open_package

FLOAT, UINT8, FLOAT16 = 1, 2, 10


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name: str, dtype: int, *shape: int | str | None) -> bytes:
    dims = b"".join(field(1, b"" if d is None else field(2 if isinstance(d, str) else 1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, dims)))


def entry(key: str, value: str) -> bytes:
    return field(1, key) + field(2, value)


def tensor(name: str, raw: bytes = b"", location: str | None = None) -> bytes:
    data = field(1, 4) + field(2, FLOAT) + field(8, name) + field(9, raw)
    if location is not None:
        data += field(13, entry("offset", "0")) + field(13, entry("location", location)) + field(14, 1)
    return data


def node(operator: str, domain: str = "", *attributes: bytes) -> bytes:
    parts = [field(1, "x"), field(2, "y"), field(3, "a node"), field(4, operator)]
    return b"".join([*parts, *(field(5, a) for a in attributes), field(7, domain)])


GRAPH = (
    field(1, node("Conv"))
    + field(1, node("Constant", "", field(1, "value") + field(5, tensor("", location="w/constant.bin")) + field(20, 4)))
    + field(1, node("Fused", "com.microsoft", field(1, "alpha") + field(2, 0.5) + field(7, 1.0) + field(8, 3)))
    + field(1, node("If", "ai.onnx", field(6, field(1, node("Loop", "", field(11, field(1, node("Relu"))))))))
    + field(1, node("If", "", field(6, field(5, tensor("images", location="w/branch.bin")))))
    + field(1, node("Constant", "", field(22, field(1, tensor("", location="w/sparse.bin")) + field(2, tensor("")))))
    + field(1, node("Mine", "my"))
    + field(2, "graph")
    + field(5, tensor("weight", bytes(300)) + field(13, entry("location", "stale.bin")) + field(14, 0))
    + field(5, tensor("big", location="w/weights.bin"))
    + field(15, field(1, tensor("sparse", location="w/weights.bin")) + field(2, tensor("indices")))
    + field(11, value_info("images", FLOAT16, "batch", 3, None, -1))
    + field(11, value_info("weight", FLOAT, 4))
    + field(11, value_info("scale", UINT8))
    + field(11, value_info("sparse", FLOAT, 4))
    + field(12, value_info("boxes", FLOAT, 1, 300, 4))
    + field(12, field(1, "unranked") + field(2, field(1, field(1, 99))))
    + field(12, field(1, "list") + field(2, field(4, b"")))
    + field(12, field(1, "untyped"))
)
MODEL = (
    field(1, 13)
    + field(2, "pytorch")
    + field(3, "2.4.0")
    + field(7, GRAPH)
    + field(8, field(1, "") + field(2, 21))
    + field(8, field(1, "com.microsoft") + field(2, 1))
    + field(14, entry("names", "{0: 'a'}"))
    + field(14, entry("stride", "32"))
    + field(
        25,
        field(1, "Mine")
        + field(10, "my")
        + field(7, node("Gelu", "my"))
        + field(11, field(5, tensor("", location="w/own.bin"))),
    )
)
FACTS = OnnxFacts(
    ir_version=13,
    opsets={"": 21, "com.microsoft": 1},
    producer="pytorch 2.4.0",
    inputs=(TensorFact("images", "float16", ("batch", 3, None, None)), TensorFact("scale", "uint8", ())),
    outputs=(
        TensorFact("boxes", "float32", (1, 300, 4)),
        TensorFact("unranked", "unknown", None),
        TensorFact("list", "sequence", None),
        TensorFact("untyped", "unknown", None),
    ),
    metadata={"names": "{0: 'a'}", "stride": "32"},
    external_files=("w/branch.bin", "w/constant.bin", "w/own.bin", "w/sparse.bin", "w/weights.bin"),
    operators=frozenset(
        [
            ("", "Conv"),
            ("", "Constant"),
            ("com.microsoft", "Fused"),
            ("", "If"),
            ("", "Loop"),
            ("", "Relu"),
            ("my", "Gelu"),
        ]
    ),
)


class Pipe(io.BytesIO):
    """A stream that cannot seek and counts the largest read."""

    largest = 0

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        self.largest = max(self.largest, size)
        return super().read(size)


def read(data: bytes, stream: BinaryIO | None = None) -> OnnxFacts:
    return read_onnx_facts(stream or io.BytesIO(data), len(data), "m.onnx")


def refused(data: bytes) -> str:
    with pytest.raises(RefusedError) as caught:
        read(data)
    (line,) = caught.value.lines()
    assert line.startswith("m.onnx: not an ONNX file: ")
    return line


def model(graph: bytes = b"", *fields: bytes) -> bytes:
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph) + b"".join(fields)


def test_everything_is_read() -> None:
    assert read(MODEL) == FACTS


def test_everything_is_read_from_a_pipe() -> None:
    assert read(MODEL, Pipe(MODEL)) == FACTS


@pytest.mark.parametrize("window", [1, 2, 7])
def test_a_field_may_lie_across_two_reads(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(protobuf, "_WINDOW", window)
    assert read(MODEL) == FACTS
    assert read(MODEL, Pipe(MODEL)) == FACTS


def test_fields_in_another_order_and_unknown_ones_change_nothing() -> None:
    data = field(99, "later") + field(98, 1) + field(97, 1.5) + varint(96 << 3 | 1) + bytes(8)
    assert read(data + MODEL[MODEL.index(b"\x3a") :] + MODEL[: MODEL.index(b"\x3a")]) == FACTS


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_everything_is_read_from_a_package(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w", method) as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr("model.onnx", MODEL)
    with open_package(tmp_path / "p.zip") as package, package.open("model.onnx") as stream:
        assert stream.seekable() == (method == zipfile.ZIP_STORED)
        assert read(MODEL, stream) == FACTS


def test_tensor_data_is_passed_over_in_bounded_reads() -> None:
    data = model(field(5, tensor("w", bytes(5_000_000))) + field(12, value_info("y", FLOAT, 1)))
    pipe = Pipe(data)
    assert read(data, pipe).outputs == (TensorFact("y", "float32", (1,)),)
    assert pipe.largest <= 1 << 20
    assert pipe.read(1) == b""


def test_large_metadata_is_left_out_and_smaller_is_kept() -> None:
    facts = read(model(b"", field(14, entry("icc", "x" * (1 << 20) + "x")), field(14, entry("k", "x" * 100_000))))
    assert facts.metadata == {"k": "x" * 100_000}


def test_external_tensor_without_a_location_is_not_lost() -> None:
    assert read(model(field(5, field(14, 1)))).external_files == ("",)


def test_an_enum_is_read_as_the_engine_reads_it() -> None:
    """C++ cuts an enum to 32 bits: what looks like another value there is external data all the same."""
    assert read(model(field(5, field(13, entry("location", "w")) + field(14, (1 << 32) + 1)))).external_files == ("w",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "no graph and no IR version and no operator set", id="empty"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", "", id="lfs"),
        pytest.param(b"PK\x03\x04" + bytes(99), "", id="zip"),
        pytest.param(field(1, 8), "no graph", id="no-graph"),
        pytest.param(field(7, b""), "no IR version", id="no-ir-version"),
        pytest.param(field(1, 8) + field(7, b""), "it has no operator set;", id="no-opset"),
        pytest.param(b"\x80" * 20, "no number ends", id="endless-number"),
        pytest.param(bytes(4), "no field begins at byte 0", id="field-zero"),
        pytest.param(b"\x0b", "no field begins at byte 0", id="group"),
        # C++ cuts a key to 32 bits: the field would be another one there.
        pytest.param(varint((14 << 3) + (1 << 32)) + b"\x01", "no field begins at byte 0", id="key-beyond-32-bits"),
        pytest.param(field(1, 8) + b"\x3a\x05\x0a", "ends 4 bytes late", id="field-behind-the-end"),
        pytest.param(model(b"\x08\x80") + b"\x01", "runs over the end", id="number-across-the-end"),
        pytest.param(model(field(1, field(4, "x" * 70_000))), "a name is longer", id="long-name"),
        pytest.param(model(field(11, value_info("x", FLOAT, *([1] * 65)))), "dimensions", id="rank"),
    ],
)
def test_junk_is_refused_in_one_line(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_stream_that_ends_before_its_size_is_refused() -> None:
    for stream in (io.BytesIO(MODEL[:-200]), Pipe(MODEL[:-200])):
        with pytest.raises(RefusedError, match="it is cut short: it ends at byte"):
            read(MODEL, stream)


def test_stream_that_ends_in_a_tensor_is_refused() -> None:
    data = model(field(5, tensor("w", bytes(3_000_000))))
    with pytest.raises(RefusedError, match="it is cut short: it ends at byte 2000000"):
        read(data, Pipe(data[:2_000_000]))


def test_deep_nesting_is_refused() -> None:
    graph = field(1, node("Relu"))
    for _ in range(32):
        graph = field(1, node("If", "", field(6, graph)))
    assert ("", "Relu") in read(model(graph)).operators
    assert "nested" in refused(model(field(1, node("If", "", field(6, graph)))))


def test_too_many_fields_and_too_much_text_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "_MOST_FIELDS", 50)
    assert "more than 50 fields" in refused(model(field(98, 1) * 50))
    monkeypatch.setattr(protobuf, "_MOST_TEXT", 500)
    assert "more than 500 bytes of names" in refused(model(b"".join(field(5, field(8, str(n))) for n in range(9))))


@pytest.mark.parametrize("stream", [io.BytesIO, Pipe])
def test_a_file_cut_anywhere_is_refused_or_read(stream: type[io.BytesIO]) -> None:
    complete = 0
    for size in range(len(MODEL)):
        try:
            read(MODEL[:size], stream(MODEL[:size]))
            complete += 1
        except RefusedError as error:
            assert len(error.lines()) == 1  # noqa: PT017
    assert complete == 4  # between two of the fields that follow the graph


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    for content in (data, model(data), model(field(1, data) + field(11, data))):
        try:
            read(content)
        except RefusedError as error:
            assert len(error.lines()) == 1  # noqa: PT017


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(MODEL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_anywhere_is_refused_or_read(changes: list[tuple[int, int]]) -> None:
    data = bytearray(MODEL)
    for index, value in changes:
        data[index] = value
    try:
        read(bytes(data))
    except RefusedError as error:
        assert len(error.lines()) == 1  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("{0: 'cat', 1: \"dog's\"}", ("cat", "dog's"), id="python"),
        pytest.param("{2: 'c', 0: 'a', 1: 'b'}", ("a", "b", "c"), id="out-of-order"),
        pytest.param('{"1": "b", "0": "a"}', ("a", "b"), id="json"),
        pytest.param("{'1': 'b', '0': 'a'}", ("a", "b"), id="ids-as-text"),
        pytest.param(
            '{"10": "k", ' + ", ".join(f'"{n}": "{n}"' for n in range(10)) + "}", (*"0123456789", "k"), id="ten"
        ),
        pytest.param("['a', 'b']", ("a", "b"), id="python-list"),
        pytest.param('["a", "b"]', ("a", "b"), id="json-list"),
        pytest.param("{0: 'a,b;c', 1: '{x}', 2: '猫 \\'q\\''}", ("a,b;c", "{x}", "猫 'q'"), id="awkward"),
        pytest.param("{0: 0, 1: 1}", ("0", "1"), id="numbers"),
        pytest.param("{0: '\\d'}", ("\\d",), id="lone-backslash"),
        pytest.param("{1: 'b', 2: 'c'}", None, id="from-one"),
        pytest.param("{0: 'a', 2: 'c'}", None, id="gap"),
        pytest.param('{"0": "a", "00": "b"}', None, id="same-id-twice"),
        pytest.param("{0: ['a']}", None, id="nested"),
        pytest.param('{"0": {"name": "a"}}', None, id="nested-json"),
        pytest.param('{"0": null}', None, id="null"),
        pytest.param("{0: ('a')}", None, id="nested-brackets"),
        pytest.param("{}", None, id="empty"),
        pytest.param("", None, id="no-text"),
        pytest.param("a, b", None, id="words"),
        pytest.param("__import__('os').getcwd()", None, id="code"),
        pytest.param("+".join(["1"] * 300_000), None, id="crashes-a-parser"),
        pytest.param("[" * 500_000, None, id="deep"),
        pytest.param("['" + "a" * (1 << 20) + "']", None, id="long"),
    ],
)
def test_parse_names(text: str, names: tuple[str, ...] | None) -> None:
    assert parse_names(text) == names


@given(st.lists(st.text(max_size=20), min_size=1, max_size=30), st.randoms())
def test_parse_names_inverts_repr(names: list[str], random: object) -> None:
    items = list(enumerate(names))
    random.shuffle(items)  # type: ignore[attr-defined]
    assert parse_names(repr(dict(items))) == tuple(names)


@given(st.text(alphabet="{}[]():,'\"\\0129ab \n", max_size=40))
def test_parse_names_takes_any_text(text: str) -> None:
    names = parse_names(text)
    assert names is None or all(isinstance(name, str) for name in names)


def test_metadata_of_another_engine_reaches_the_class_names() -> None:
    facts = graph_facts({"inputs": [], "outputs": [], "metadata": {"names": '{"0": "bolt"}'}})
    assert parse_names(facts.metadata["names"]) == ("bolt",)
    assert graph_facts({"inputs": [], "outputs": []}).metadata == {}
