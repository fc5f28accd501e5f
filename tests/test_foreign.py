"""Files of others: whatever their bytes are, the error is one line that names them, and memory is bounded."""

import io
import os
import random
import signal
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from quadnorm._files import MOST_JSON, DamagedError, read_bytes, read_sealed, require_file
from quadnorm._foreign import parsing, read_arrays, require_unpacked
from quadnorm._memory import out_of_memory
from quadnorm.lab.studies.pictures import picture_file, read_picture
from quadnorm.problems.files import read_fields
from quadnorm.training import read_config
from quadnorm.training.files.checkpoint import read_checkpoint


@pytest.fixture(autouse=True)
def _two_gigabytes():
    """No test here may take more memory than this; a file that takes it all fails one test instead of the machine."""
    resource = pytest.importorskip("resource")
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 2**20
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**31, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def npz(compressed=True, **arrays):
    target = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(target, **arrays)
    return target.getvalue()


def flips(data, count, seed=0):
    """Copies of the data, each with one changed bit: all bits of short data, else ``count`` random ones."""
    choose = random.Random(seed)
    places = range(8 * len(data)) if 8 * len(data) <= count else (choose.randrange(8 * len(data)) for _ in range(count))
    for place in places:
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


def test_every_flipped_bit_of_a_picture_is_damage_or_harmless(tmp_path):
    """zlib.error, SyntaxError, TokenError, NotImplementedError, …: each was seen here as it is."""
    path = picture_file(tmp_path, "as-trained", 9)
    path.parent.mkdir()
    fields = {name: np.random.default_rng(0).normal(size=(9, 9)) for name in ("x", "truth", "error")}
    said = []
    for compressed in (True, False):
        for data in flips(npz(compressed, **fields, weights=np.array("abc")), 500):
            path.write_bytes(data)
            try:
                read_picture(tmp_path, "as-trained", 9)
            except DamagedError as error:
                said.append(str(error))
    assert len(said) > 800
    assert all(line.startswith(f"{path} is damaged: ") and "\n" not in line for line in said)


@pytest.mark.parametrize("kind", ["npy", "npz", "pt", "mat", "mat-small"])
def test_every_flipped_bit_of_a_header_of_data_is_a_line_or_harmless(tmp_path, kind):
    """In a .mat file one of them ended the process, another took all memory for the nodes of an axis."""
    ending = kind.partition("-")[0]
    path, data = tmp_path / f"a.{ending}", io.BytesIO()
    u = np.ones((2, 8, 8))
    if ending == "npy":
        np.save(data, u)
    elif ending == "npz":
        np.savez(data, u=u)
    elif ending == "pt":
        torch.save({"u": torch.ones(2, 8, 8)}, data)
    else:
        pytest.importorskip("scipy.io").savemat(data, {"u": u}, do_compression=kind == "mat-small")
    whole = data.getvalue()
    head, rest = whole[:256], whole[256:]
    said = []
    for changed in flips(head, 500):
        path.write_bytes(changed + rest)
        try:
            read_fields(path, placement="cell").tensor("u" if ending != "npy" else "data")
        except (ValueError, OSError) as error:
            said.append(str(error))
    assert len(said) > 20
    assert [line for line in said if str(path) not in line and "no field 'u'" not in line] == []


def test_a_shape_below_zero(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 8, 8), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    (tmp_path / "a.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("u.npy", data)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match=rf"{name}: not a plain"):
            read_fields(tmp_path / name, placement="cell")


def test_what_passes_a_parser_unchanged(tmp_path):
    path = tmp_path / "f"
    for error in (FileNotFoundError("x"), PermissionError("x"), ImportError("x"), ValueError(f"{path}: said already")):
        with pytest.raises(type(error), match=str(error)), parsing(path, "kind"):
            raise error
    for error, words in (
        (KeyError("a"), r"not good \('a'\)"),
        (RecursionError(), "nested too deeply"),
        (np.exceptions.AxisError("a\nb"), r"not good \(a; b\)"),
        (MemoryError(), "takes more memory than there is"),
    ):
        with pytest.raises(ValueError, match=words), parsing(path, "not good"):
            raise error
        with pytest.raises(DamagedError, match=words), parsing(path, "not good", DamagedError):
            raise error


def test_archives_that_unpack_to_more_than_there_is(tmp_path):
    """60 TB of zeros, announced by an archive of a few hundred bytes, or spread over members that hold no arrays."""
    for k, name in enumerate(("u.npy", "readme.txt")):
        path = tmp_path / f"{k}.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, bytes(1000))
        data = path.read_bytes().replace(struct.pack("<I", 1000), struct.pack("<I", 0xFFFFFFFE))
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"its arrays have 4\.3 GB; at most 1\.0 MB are read"):
            read_arrays(path, "not arrays", most=10**6)
    many = tmp_path / "many.zip"
    with zipfile.ZipFile(many, "w") as archive:
        info = zipfile.ZipInfo("a")
        archive.writestr(info, b"")
        archive.filelist[0].file_size = 60 * 10**12
    with pytest.raises(ValueError, match=r"many.zip: unpacking it would need 60.0 TB of memory"):
        require_unpacked(many)
    with pytest.raises(ValueError, match=r"many.zip: reading its arrays would need 60.0 TB of memory"):
        read_arrays(many, "not arrays")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices as files")
def test_links_to_devices_and_pipes_are_refused_at_once(tmp_path):
    """Read until memory ends, or waited for without end, as they were."""
    os.mkfifo(tmp_path / "pipe")
    signal.alarm(30)
    try:
        for target in ("/dev/zero", str(tmp_path / "pipe")):
            for reader, name in (
                (lambda p: read_fields(p, placement="cell"), "a.npy"),
                (lambda p: read_fields(p, placement="cell"), "a.npz"),
                (lambda p: read_fields(p, placement="cell"), "a.pt"),
                (lambda p: read_fields(p, placement="cell"), "a.mat"),
                (lambda p: read_fields(p, placement="cell"), "a.h5"),
                (lambda p: read_fields(p, placement="cell"), "a.nc"),
                (read_checkpoint, "a.safetensors"),
                (read_sealed, "record.json"),
                (read_bytes, "any"),
            ):
                link = tmp_path / name
                link.unlink(missing_ok=True)
                link.symlink_to(target)
                with pytest.raises(OSError, match=rf"cannot read .*{name}: it is a device or a pipe, not a file"):
                    reader(link)
        (tmp_path / "c.yaml").symlink_to("/dev/zero")
        with pytest.raises(OSError, match=r"c.yaml: it is a device or a pipe, not a file"):
            read_config(tmp_path / "c.yaml")
    finally:
        signal.alarm(0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes as files")
def test_a_config_may_come_through_a_pipe_but_not_without_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    write = "import sys\nwith open(sys.argv[1], 'w') as f: f.write(int(sys.argv[3]) * sys.argv[2])"
    with subprocess.Popen([sys.executable, "-c", write, str(pipe), "epochs: 7", "1"]):
        assert read_config(pipe).epochs == 7
    with (
        subprocess.Popen([sys.executable, "-c", write, str(pipe), "# ", "10000000"], stderr=subprocess.DEVNULL),
        pytest.raises(ValueError, match=r"pipe: it has more than 4\.0 MB, the most that is read"),
    ):
        read_config(pipe)


def test_a_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    assert read_bytes(path) == read_bytes(path, 100) == bytes(100)
    with pytest.raises(ValueError, match="f: it has more than 99 B"):
        read_bytes(path, 99)
    with open(path, "r+b") as file:
        file.truncate(10**13)
    with pytest.raises(ValueError, match=r"f: reading it would need 10\.0 TB of memory"):
        read_bytes(path)
    with pytest.raises(ValueError, match=r"f: it has more than 67\.1 MB"):
        read_sealed(path)
    assert MOST_JSON == 67108864
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        require_file(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="Is a directory; give the name of a file"):
        require_file(tmp_path)
    if Path("/proc/self/status").exists():  # tells a size of 0
        assert b"Name:" in read_bytes(Path("/proc/self/status"), 10**6)
        with pytest.raises(ValueError, match="it grows while it is read"):
            read_bytes(Path("/proc/self/status"))


def test_out_of_memory_is_known_in_every_form():
    for take in (
        lambda: torch.empty(2**45),
        lambda: torch.empty(2**31, 2**31),
        lambda: np.empty(2**45),
        lambda: np.empty(2**62),
        lambda: bytearray(2**60),
    ):
        with pytest.raises((RuntimeError, MemoryError, ValueError)) as caught:
            take()
        assert out_of_memory(caught.value)
    assert out_of_memory(OSError(12, "Cannot allocate memory"))
    assert not out_of_memory(OSError(2, "No such file"))
    assert not out_of_memory(ValueError("bad shape"))
