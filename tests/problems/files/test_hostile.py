"""Files that announce more than they hold, send the reader elsewhere, or hold what nobody asked for."""

import struct
import zipfile

import numpy as np
import pytest
import torch

from quadnorm.problems.files import read_fields

h5py = pytest.importorskip("h5py")


def test_an_archive_that_announces_terabytes(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2000000, 1000, 1000), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("u.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(ValueError, match=r"u.npy announces 16000000000000 bytes, the archive has"):
        read_fields(tmp_path / "a.npz", placement="cell")


def test_foreign_members_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", u=np.zeros((2, 4, 4)))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match=r"the member 'readme.txt' is not a .npy array"):
        read_fields(tmp_path / "a.npz", placement="cell")


def test_an_empty_dataset_of_terabytes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("u", shape=(10**6, 4096, 4096), dtype="f8", chunks=(1, 64, 64))
        file.create_dataset("x", shape=(10**12,), dtype="f8", chunks=(1024,))
    with pytest.raises(ValueError, match=r"'x' has shape .* coordinates have at most"):
        read_fields(tmp_path / "a.h5", placement="cell")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["x"]
    data = read_fields(tmp_path / "a.h5", placement="cell")
    with pytest.raises(ValueError, match=r"reading 1000000 samples of 'u'.* would need 134.2 TB of memory"):
        data["u"].read()
    assert data["u"].read([3]).shape == (1, 4096, 4096)


def test_values_in_another_file_are_not_read(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(8 * 32))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["u"] = np.zeros((2, 4, 4))
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("u", (2, 4, 4), "f8", external=[(str(tmp_path / "secret"), 0, 256)])
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["u"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/u")
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file["a/b/c"] = h5py.ExternalLink("/dev/zero", "/u")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 4, 4), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "u", (2, 4, 4))
        file.create_virtual_dataset("u", layout)
    for name, message in (
        ("external", "are in another file, .*secret"),
        ("link", "is a link to another file"),
        ("deep", "'a/b/c' is a link to another file, '/dev/zero'"),
        ("virtual", "are in another file, .*other.h5"),
    ):
        with pytest.raises(ValueError, match=message):
            read_fields(tmp_path / f"{name}.h5", placement="cell")


def test_groups_without_end(tmp_path):
    with h5py.File(tmp_path / "circle.h5", "w") as file:
        file["u"] = np.zeros((2, 4, 4))
        group = file.create_group("a")
        group["itself"] = group
    with pytest.raises(ValueError, match="nested more than 16 levels deep, or in a circle"):
        read_fields(tmp_path / "circle.h5", placement="cell")


def test_tensors_of_every_kind_are_read_or_refused(tmp_path):
    torch.save({"x": torch.ones(2, 4, 4, requires_grad=True), "y": torch.ones(2, 4, 4).bfloat16()}, tmp_path / "a.pt")
    data = read_fields(tmp_path / "a.pt", placement="cell")
    assert data.tensor("x").dtype == data.tensor("y").dtype == torch.float32
    torch.save({"x": torch.ones(2, 4, 4).to_sparse()}, tmp_path / "b.pt")
    with pytest.raises(ValueError, match=r"'x' is a torch.sparse_coo tensor"):
        read_fields(tmp_path / "b.pt", placement="cell")
    torch.save({"x": torch.ones(2, 4, 4, dtype=torch.complex64)}, tmp_path / "c.pt")
    with pytest.raises(ValueError, match="'x' holds complex64, expected real numbers"):
        read_fields(tmp_path / "c.pt", placement="cell").tensor("x")


def test_samples_that_are_stored_in_different_ways(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k, kind in enumerate(("f4", "f8")):
            file[f"{k:04d}/data"] = np.zeros((3, 4, 4, 1), kind)
    with pytest.raises(ValueError, match="stored as float32 and float64"):
        read_fields(tmp_path / "a.h5", layout="pdebench")["data"].read()


def test_a_matlab_file_with_numbers_of_no_type(tmp_path):
    """scipy looks the type up unchecked: the process ended with a segmentation fault."""
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.ones((2, 8, 8))})
    data = bytearray((tmp_path / "a.mat").read_bytes())
    assert data[184] == 9  # double
    for kind, said in ((9 ^ 16, "numbers of an unknown type, 25"), (8, "numbers of an unknown type, 8")):
        data[184] = kind
        (tmp_path / "a.mat").write_bytes(data)
        with pytest.raises(ValueError, match=said):
            read_fields(tmp_path / "a.mat", placement="cell")


def test_axes_of_billions_of_nodes(tmp_path):
    """Nobody asked for a value, and yet the nodes of the axis took all memory."""
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.ones((2, 8, 8))})
    data = bytearray((tmp_path / "a.mat").read_bytes())
    assert data[164:168] == b"\x08\0\0\0"
    data[167] = 32
    (tmp_path / "a.mat").write_bytes(data)
    with pytest.raises(ValueError, match=r"'u' announces \(2, 536870920, 8\) numbers, the file has 1216 bytes"):
        read_fields(tmp_path / "a.mat", placement="cell")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("u", shape=(2, 8, 2**30), dtype="f8", chunks=(1, 8, 64))
    with pytest.raises(ValueError, match="'u' announces 1073741824 nodes along y; at most 16777216 are read"):
        read_fields(tmp_path / "a.h5", placement="cell")
