"""Records in one file: the same bytes for the same records, checked when read."""

import lzma

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
