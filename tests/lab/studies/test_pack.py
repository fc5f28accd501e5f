"""Records in one file: the same bytes for the same records, checked when read."""

import hashlib
import io
import json
import lzma
import tarfile

import pytest

from quadnorm._files import DamagedError
from quadnorm.lab.studies import study
from quadnorm.lab.studies.pack import pack, unpack
from quadnorm.lab.studies.records import load
from tests.lab.analysis.synthetic_records import write_records


@pytest.fixture
def records(tmp_path):
    s = study("tost").at("smoke")
    for folder in write_records(s, tmp_path / "results"):
        (folder / "best.safetensors").write_bytes(bytes(1000))
    return s, tmp_path / "results"


def test_a_pack_gives_the_same_numbers_without_weights(records, tmp_path):
    s, results = records
    assert pack(results, tmp_path / "a.tar.xz") == 4
    back = unpack(tmp_path / "a.tar.xz", tmp_path / "back")
    assert load(s, back) == load(s, results)
    assert not list(back.rglob("*.safetensors"))


def test_equal_records_give_equal_bytes(records, tmp_path):
    _, results = records
    pack(results, tmp_path / "a.tar.xz")
    unpack(tmp_path / "a.tar.xz", tmp_path / "back")
    pack(tmp_path / "back", tmp_path / "b.tar.xz")
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()


def test_what_is_damaged_is_not_read(records, tmp_path):
    _, results = records
    whole = tmp_path / "a.tar.xz"
    pack(results, whole)
    plain = bytearray(lzma.decompress(whole.read_bytes()))
    plain[plain.index(b'"plain"') + 12] ^= 1
    for data in (b"", b"nonsense", whole.read_bytes()[:-50], lzma.compress(bytes(plain))):
        broken = tmp_path / "broken.tar.xz"
        broken.write_bytes(data)
        with pytest.raises(DamagedError, match="damaged"):
            unpack(broken, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(FileNotFoundError, match="no pack of records"):
        unpack(tmp_path / "absent.tar.xz", tmp_path / "nothing")
    with pytest.raises(ValueError, match="no finished run"):
        pack(tmp_path / "empty", tmp_path / "c.tar.xz")


def packed(path, members, manifest=None):
    """A pack as somebody else may make it, with checksums that agree unless ``manifest`` is given."""
    sums = {name: hashlib.blake2b(data, digest_size=20).hexdigest() for name, data in members}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in [*members, ("pack.json", manifest or json.dumps(sums).encode())]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path.write_bytes(lzma.compress(plain.getvalue(), preset=0))
    return path


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([""], "'' is not part of a run's record"),
        (["."], "'.' is not part of a run's record"),
        (["runs/a", "runs/a/b"], "'runs/a' is not part"),
        (["runs/a/b", "runs/a/b/c"], "'runs/a/b/c' is not part"),
        (["runs/a/b", "runs/./a/b"], r"'runs/\./a/b' is not part"),
        (["runs/../a/b"], "is not part"),
        (["/runs/a/b"], "is not part"),
        (["runs/a/C:b"], "is not part"),
        (["runs/a/\x1b[31m"], r"x1b\[31m' is not part"),
        (["runs/" + 300 * "a" + "/b"], "is not part"),
        (["runs/a/b", "runs/a/b"], "'runs/a/b' is not a regular file, is there twice"),
        ([], "it holds no run"),
    ],
)
def test_names_lead_nowhere_else(tmp_path, names, said):
    with pytest.raises(DamagedError, match=said) as caught:
        unpack(packed(tmp_path / "a.tar.xz", [(name, b"x") for name in names]), tmp_path / "nothing")
    assert str(caught.value).startswith(f"{tmp_path / 'a.tar.xz'} is damaged: ")
    assert not (tmp_path / "nothing").exists()


def test_a_manifest_nested_without_end(tmp_path):
    deep = packed(tmp_path / "a.tar.xz", [("runs/a/b", b"")], b"[" * 200_000 + b"]" * 200_000)
    with pytest.raises(DamagedError, match=r"not a pack of records \(it is nested too deeply\)"):
        unpack(deep, tmp_path / "nothing")


def test_a_pack_of_zeros_is_unpacked_up_to_a_bound(tmp_path, monkeypatch):
    """9.5 MB stood for 60 GB, and were unpacked until memory ended."""
    monkeypatch.setattr("quadnorm.lab.studies.pack.MOST_BYTES", 10**6)
    small = packed(tmp_path / "small.tar.xz", [("runs/a/b", bytes(9 * 10**5))])
    assert (unpack(small, tmp_path / "out") / "runs/a/b").stat().st_size == 9 * 10**5
    large = packed(tmp_path / "large.tar.xz", [("runs/a/b", bytes(5 * 10**7))])
    assert large.stat().st_size < 10**5
    with pytest.raises(DamagedError, match=r"it unpacks to more than 1\.0 MB"):
        unpack(large, tmp_path / "nothing")
    tail = tmp_path / "tail.tar.xz"  # after the end of the archive
    tail.write_bytes(lzma.compress(lzma.decompress(small.read_bytes()) + bytes(10**6), preset=0))
    with pytest.raises(DamagedError, match=r"it unpacks to more than 1\.0 MB"):
        unpack(tail, tmp_path / "nothing")


def test_a_decompressor_that_asks_for_much_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("quadnorm.lab.studies.pack._MOST_MEMORY", 10**5)
    with pytest.raises(DamagedError, match="Memory usage limit exceeded"):
        unpack(packed(tmp_path / "a.tar.xz", [("runs/a/b", b"x")]), tmp_path / "nothing")


def test_more_than_a_pack_holds_is_not_packed(records, tmp_path, monkeypatch):
    monkeypatch.setattr("quadnorm.lab.studies.pack._MOST_FILES", 5)
    with pytest.raises(ValueError, match="too many for one pack, which holds 4 with"):
        pack(records[1], tmp_path / "a.tar.xz")
