"""Files are the old one or the new one; every changed bit of a sealed file is noticed; only our own are removed."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quadnorm._files import (
    DamagedError,
    read_sealed,
    remove_leftovers,
    sealed,
    set_aside,
    unsealed,
    write_atomic,
)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, function):
    path = tmp_path / "file"
    write_atomic(path, "old", "the file")

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{function}", full)
    with pytest.raises(OSError, match=r"cannot write the file .*: No space left on device; free some space") as caught:
        write_atomic(path, "new", "the file")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"cannot write the page .*; give the name of a file"):
        write_atomic(tmp_path, "", "the page")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a device or a pipe, not a file"):
        write_atomic(tmp_path / "pipe", "", "the page")
    with pytest.raises(FileNotFoundError, match="make its folder first"):
        write_atomic(tmp_path / "no" / "file", "", "the page")


def test_links_are_replaced_and_never_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("theirs")
    link.symlink_to(target)
    write_atomic(link, "ours", "the file")
    assert target.read_text() == "theirs"
    assert not link.is_symlink()
    assert link.read_text() == "ours"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", "", "the file")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_only_own_leftovers_of_dead_processes_are_removed(tmp_path):
    """A file that is being written is locked; one like it that nobody holds was left by a kill."""
    left = tmp_path / ".quadnorm-0123456789abcdef.part"
    left.touch()
    others = [tmp_path / n for n in (".file.part", ".quadnorm-x.part", ".quadnorm-0123456789abcdef.part~")]
    for other in others:
        other.touch()
    code = (
        "import sys, time; from pathlib import Path; from quadnorm._files import _create\n"
        "handle, part = _create(Path(sys.argv[1])); print(part.name, flush=True); time.sleep(1800)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        busy = tmp_path / writer.stdout.readline().strip()
        remove_leftovers(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([*others, busy])
    finally:
        writer.kill()
        writer.communicate()
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    code = (
        "import sys; from pathlib import Path; from quadnorm._files import write_atomic, remove_leftovers\n"
        "path = Path(sys.argv[1])\n"
        "for k in range(60): write_atomic(path, sys.argv[2] * 10000, 'it'); remove_leftovers(path.parent)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "file"), letter], stderr=subprocess.PIPE)
        for letter in "abc"
    ]
    errors = [w.communicate()[1].decode() for w in writers]
    assert errors == ["", "", ""]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    text = (tmp_path / "file").read_text()
    assert text == text[0] * 10000


def test_every_changed_bit_of_a_sealed_file_is_noticed(tmp_path):
    value = {"plain": [1e-05, None, 0.25], "text": "ε\x1b[31m", "empty": {}}
    for indent in (None, 1):
        data = sealed(value, indent)
        assert unsealed(data, Path("x")) == value
        for at in range(len(data)):
            for bit in range(8):
                with pytest.raises(DamagedError, match="x is damaged"):
                    unsealed(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], Path("x"))
    (tmp_path / "f").write_bytes(data[:-1])
    with pytest.raises(DamagedError, match="cut short"):
        read_sealed(tmp_path / "f")
    with pytest.raises(OSError, match="cannot read"):
        read_sealed(tmp_path)


def test_deep_brackets_are_damage_not_a_crash():
    import hashlib

    blank = b"0" * 40
    data = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b', "blake2b": "' + blank + b'"}\n'
    code = hashlib.blake2b(data, digest_size=20).hexdigest().encode()
    with pytest.raises(DamagedError, match="not JSON"):
        unsealed(data.replace(blank, code), Path("x"))


def test_setting_aside_keeps_the_file(tmp_path):
    (tmp_path / "a").write_text("x")
    aside = set_aside(tmp_path / "a")
    assert aside.read_text() == "x"
    assert aside.name.startswith("a.damaged-")
    assert not (tmp_path / "a").exists()
