"""Readers of PDEBench, the Well and anyone's HDF5, on small files written here in the public layouts."""

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.problems.files import read_fields, read_hdf5, read_pdebench, read_well

RNG = np.random.default_rng(7)
CELLS = ((np.arange(8) + 0.5) / 8).astype(np.float32)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def write(path, datasets, attributes=None):
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
        file.attrs.update(attributes or {})
    return path


def pdebench_darcy(path, **changes):
    content = {"nu": normal(5, 8, 8), "tensor": normal(5, 1, 8, 8), "x-coordinate": CELLS, "y-coordinate": CELLS}
    return write(path, content | changes, {"beta": 1.0}), content | changes


def test_pdebench_darcy(tmp_path):
    path, content = pdebench_darcy(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5")
    data = read_fields(path)
    assert (data.layout, data.placement, len(data)) == ("pdebench", ("cell", "cell"), 5)
    assert data.attributes["beta"] == 1.0
    np.testing.assert_array_equal(data.tensor("nu", [4, 0, 4])[:, 0].numpy(), content["nu"][[4, 0, 4]])
    np.testing.assert_array_equal(data.tensor("tensor").numpy(), content["tensor"])
    np.testing.assert_allclose(data.domain, [(0, 1), (0, 1)])


def test_pdebench_refuses_mislabelled_coordinates(tmp_path):
    ends = np.linspace(0, 1, 8, dtype=np.float32)
    path, _ = pdebench_darcy(tmp_path / "a.h5", **{"x-coordinate": ends, "y-coordinate": ends})
    with pytest.raises(ValueError, match=r"the layout says that axis x is 'cell', but .* are endpoint"):
        read_pdebench(path)
    data = read_pdebench(path, placement="cell", ignore_coordinates=True)
    np.testing.assert_allclose(data.coordinates[0], CELLS)
    assert read_pdebench(path, placement="endpoint").placement == ("endpoint", "endpoint")


def test_pdebench_damage(tmp_path):
    path, _ = pdebench_darcy(tmp_path / "a.h5", tensor=normal(4, 1, 8, 8))
    with pytest.raises(ValueError, match=r"a\.h5: fields hold different numbers of samples: nu 5, tensor 4"):
        read_pdebench(path)
    bad = normal(5, 1, 8, 8)
    bad[3] = np.nan
    path, _ = pdebench_darcy(tmp_path / "b.h5", tensor=bad)
    with pytest.raises(ValueError, match=r"'tensor' holds NaN .* in 1 of 5 samples read \(3\)"):
        read_pdebench(path).tensor("tensor")
    with pytest.raises(ValueError, match=r"unknown field 'sol'.*Known: nu, tensor"):
        read_pdebench(path, fields=["sol"])
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"b\.h5: not a readable HDF5 file, damaged or cut short"):
        read_fields(path)
    with pytest.raises(ValueError, match="no PDEBench arrangement; it holds z"):
        read_pdebench(write(tmp_path / "c.h5", {"z": np.zeros(3)}))
    path, _ = pdebench_darcy(tmp_path / "d.h5", **{"x-coordinate": CELLS[:-1]})
    with pytest.raises(ValueError, match="axis x has 8 nodes, its coordinates have shape"):
        read_pdebench(path)


def test_pdebench_time_dependent(tmp_path):
    times = np.linspace(0, 1, 5, dtype=np.float32)
    path = write(
        tmp_path / "1D_Burgers.hdf5", {"tensor": normal(3, 4, 8), "x-coordinate": CELLS, "t-coordinate": times}
    )
    data = read_fields(path)
    assert (data.placement, data["tensor"].axes) == (("cell",), "ntx")
    np.testing.assert_array_equal(data.times, times)
    assert data.tensor("tensor", time=3).shape == (3, 1, 8)
    content = {name: normal(2, 4, 8, 8) for name in ("density", "pressure", "Vx", "Vy")}
    path = write(
        tmp_path / "2D_CFD.hdf5", content | {"x-coordinate": CELLS, "y-coordinate": CELLS, "t-coordinate": times}
    )
    data = read_fields(path)
    assert sorted(data.fields) == ["Vx", "Vy", "density", "pressure"]
    np.testing.assert_array_equal(data.tensor("Vx", [1], time=2)[0, 0].numpy(), content["Vx"][1, 2])


def test_pdebench_one_group_for_each_sample(tmp_path):
    samples = normal(3, 4, 8, 8, 2)
    content = {f"{i:04d}/data": samples[i] for i in range(3)}
    for i in range(3):
        content |= {f"{i:04d}/grid/{a}": 2 * CELLS - 1 for a in "xy"} | {f"{i:04d}/grid/t": np.arange(4.0)}
    path = write(tmp_path / "2D_diff-react_NA_NA.h5", content)
    data = read_fields(path)
    assert (data.layout, data.placement, data["data"].axes) == ("pdebench", ("cell", "cell"), "ntxyc")
    np.testing.assert_allclose(data.domain[0], (-1, 1))
    expected = samples[[2, 0], 1].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(data.tensor("data", [2, 0], time=1).numpy(), expected)
    with h5py.File(path, "r+") as file:
        del file["0002/data"]
        file["0002/data"] = samples[2, :3]
    with pytest.raises(ValueError, match="samples have different shapes"):
        read_fields(path)


def test_pdebench_incompressible(tmp_path):
    content = {
        "velocity": normal(2, 3, 8, 8, 2),
        "particles": normal(2, 3, 8, 8, 1),
        "force": normal(2, 8, 8, 2),
        "t": normal(2, 3),
    }
    data = read_fields(write(tmp_path / "ns_incom.h5", content))
    assert data.placement == ("cell", "cell")
    np.testing.assert_array_equal(data.tensor("force").numpy(), content["force"].transpose(0, 3, 1, 2))
    assert data.tensor("velocity", time=0).shape == (2, 2, 8, 8)


def well(path, *, x=CELLS, bc=("periodic", "wall"), n=2, density=None):
    """The Well's specification, with one field of each rank and one that is constant in time and along y."""
    fields = {
        "t0_fields": {
            "density": (normal(2, 3, 8, 8) if density is None else density, True, True, [True, True]),
            "profile": (normal(2, 8), True, False, [True, False]),
            "mask": (normal(8, 8), False, False, [True, True]),
        },
        "t1_fields": {"velocity": (normal(2, 3, 8, 8, 2), True, True, [True, True])},
        "t2_fields": {"stress": (normal(2, 3, 8, 8, 2, 2), True, True, [True, True])},
    }
    with h5py.File(path, "w") as file:
        file.attrs.update(
            {
                "dataset_name": "example",
                "grid_type": "cartesian",
                "n_spatial_dims": 2,
                "n_trajectories": n,
                "simulation_parameters": ["Re"],
                "Re": 100.0,
            }
        )
        dims = file.create_group("dimensions")
        dims.attrs["spatial_dims"] = ["x", "y"]
        dims["time"] = np.arange(3, dtype=np.float32)
        dims["x"], dims["y"] = x, CELLS
        for name, kind in zip("xy", bc, strict=True):
            group = file.create_group(f"boundary_conditions/{name}_boundary")
            group.attrs.update({"associated_dims": [name], "associated_fields": [], "bc_type": kind})
            group["mask"] = np.arange(8) == 0
        for group_name, members in fields.items():
            group = file.create_group(group_name)
            group.attrs["field_names"] = list(members)
            for name, (values, sample, time, dim) in members.items():
                group[name] = values
                group[name].attrs.update({"sample_varying": sample, "time_varying": time, "dim_varying": dim})
    return path, {name: v[0] for members in fields.values() for name, v in members.items()}


def test_the_well(tmp_path):
    path, values = well(tmp_path / "w.hdf5", x=np.arange(8, dtype=np.float32) / 8)
    data = read_fields(path)
    assert (data.layout, data.placement, len(data)) == ("the_well", ("periodic", "cell"), 2)
    assert data.attributes["Re"] == 100.0
    np.testing.assert_array_equal(data.times, [0, 1, 2])
    np.testing.assert_array_equal(data.tensor("density", [1], time=2)[0, 0].numpy(), values["density"][1, 2])
    vector = data.tensor("velocity", time=0)
    np.testing.assert_array_equal(vector.numpy(), values["velocity"][:, 0].transpose(0, 3, 1, 2))
    tensor = data.tensor("stress", time=1)  # channel 2i + j is component (i, j)
    np.testing.assert_array_equal(tensor[:, 1].numpy(), values["stress"][:, 1, :, :, 0, 1])
    profile = data.tensor("profile")
    assert profile.shape == (2, 1, 8, 8)
    np.testing.assert_array_equal(profile[1, 0, :, 5].numpy(), values["profile"][1])
    assert torch.equal(data.tensor("mask"), torch.from_numpy(values["mask"])[None, None])


def test_the_well_asks_and_refuses(tmp_path):
    left = np.arange(8, dtype=np.float32) / 8
    path, _ = well(tmp_path / "a.hdf5", x=left, bc=("wall", "wall"))
    with pytest.raises(ValueError, match=r"axis x.*placement='periodic' or placement='left'"):
        read_well(path)
    assert read_well(path, placement=("left", "cell")).placement == ("left", "cell")
    path, _ = well(tmp_path / "b.hdf5", x=np.linspace(0, 1, 8, dtype=np.float32))
    with pytest.raises(ValueError, match="axis x is 'periodic', but its 8 coordinates 0 … 1 are endpoint"):
        read_well(path)
    path, _ = well(tmp_path / "c.hdf5", n=3)
    with pytest.raises(ValueError, match="n_trajectories is 3, but 'density' holds 2 samples"):
        read_well(path)
    path, _ = well(tmp_path / "d.hdf5", density=normal(2, 8, 8))
    with pytest.raises(ValueError, match=r"t0_fields/density has shape \(2, 8, 8\), its attributes promise 4 axes"):
        read_well(path)
    with pytest.raises(ValueError, match="not a file of the Well: no group 'dimensions'"):
        read_well(write(tmp_path / "e.h5", {"u": np.zeros((2, 4, 4))}))


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """One small file of every kind: (ending, bytes, arguments)."""
    from scipy.io import savemat

    folder = tmp_path_factory.mktemp("whole")
    field = normal(3, 8, 8)
    savemat(folder / "a.mat", {"coeff": field, "sol": field}, do_compression=True)
    savemat(folder / "plain.mat", {"coeff": field, "sol": field})
    torch.save({"x": torch.from_numpy(field)}, folder / "a.pt")
    np.savez(folder / "a.npz", u=field)
    np.savez_compressed(folder / "packed.npz", u=field)
    np.save(folder / "a.npy", field)
    pdebench_darcy(folder / "a.hdf5")
    well(folder / "well.h5", x=np.arange(8, dtype=np.float32) / 8)
    return [(file.suffix, file.read_bytes()) for file in sorted(folder.iterdir())]


@settings(max_examples=80, deadline=None)
@given(kind=st.integers(0, 7), part=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused_by_name(whole_files, tmp_path_factory, kind, part):
    suffix, content = whole_files[kind]
    path = tmp_path_factory.mktemp("cut") / f"cut{suffix}"
    path.write_bytes(content[: int(part * len(content))])
    options = {} if suffix in (".mat", ".h5", ".hdf5") else {"placement": "cell"}
    with pytest.raises((ValueError, OSError), match=r"cut\."):
        read_whole(path, suffix, options)


def read_whole(path, suffix, options):
    wanted = ["coeff", "sol"] if suffix == ".mat" else None
    data = read_fields(path, **options, **({"fields": wanted} if wanted else {}))
    for field in data.fields.values():
        field.read()


def test_anyones_hdf5(tmp_path):
    ends = np.linspace(0, 1, 8)
    content = {"run/u": normal(4, 8, 8), "k": normal(4, 3, 8, 8), "x": ends, "y": ends, "scalars": normal(4)}
    path = write(tmp_path / "a.h5", content)
    data = read_fields(path)
    assert (data.layout, data.placement, sorted(data.fields)) == ("hdf5", ("endpoint", "endpoint"), ["k", "run/u"])
    np.testing.assert_array_equal(data.tensor("k", [3, 1]).numpy(), content["k"][[3, 1]])
    assert read_hdf5(path, fields=["run/u"], axes={"run/u": "txy"}).tensor("run/u", time=3).shape == (1, 1, 8, 8)
    with pytest.raises(ValueError, match="'scalars' has 1 dimensions"):
        read_hdf5(path, fields=["scalars"])
    with pytest.raises(ValueError, match="no fields found"):
        read_hdf5(write(tmp_path / "b.h5", {"x": ends}))


def test_an_attribute_tells_the_placement(tmp_path):
    path = write(tmp_path / "a.h5", {"u": normal(4, 8, 8)}, {"placement": "left"})
    assert read_fields(path).placement == ("left", "left")
    path = write(tmp_path / "b.h5", {"u": normal(4, 8, 8)}, {"placement": ["cell", "endpoint"]})
    assert read_fields(path).placement == ("cell", "endpoint")


def test_packed_values_and_fill_values(tmp_path):
    """As netCDF-4 files hold them: v = 0.01·stored + 273, and −9999 or the fill value where nothing was measured."""
    values = np.arange(3 * 4 * 4, dtype=np.int16).reshape(3, 4, 4)
    values[1, 2, 3] = -9999
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["t"] = values
        file["t"].attrs.update({"scale_factor": np.array([0.01]), "add_offset": 273.0, "_FillValue": np.int16(-9999)})
        file["p"] = np.where(values == -9999, np.float32(9.96921e36), values.astype(np.float32))
        file["p"].attrs["missing_value"] = np.float32(9.96921e36)
    data = read_fields(tmp_path / "a.nc", placement="cell")
    with pytest.raises(ValueError, match=r"'t' holds NaN .* 1 of 3 samples read \(1\)"):
        data.tensor("t")
    t, p = (data.tensor(name, dtype=None, allow_nan=True)[:, 0].numpy() for name in ("t", "p"))
    expected = np.where(values == -9999, np.nan, values)
    np.testing.assert_allclose(t, 0.01 * expected + 273, rtol=1e-12)
    np.testing.assert_array_equal(p, expected.astype(np.float32))
    np.testing.assert_allclose(data["t"].read([2]), 0.01 * values[2:] + 273, rtol=1e-12)


def test_attributes_that_are_no_numbers(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.zeros((3, 4, 4))
        file["u"].attrs["scale_factor"] = "two"
    with pytest.raises(ValueError, match=r"a\.h5: 'u': the attribute scale_factor of a dataset is 'two'"):
        read_fields(tmp_path / "a.h5", placement="cell")
