"""Files whose nodes lie on no equispaced grid: they train as points, with volumes by area; operators that need a grid
refuse them by name; masks are parts of volumes."""

import numpy as np
import pytest
import torch
import xarray as xr

import quadnorm as qn
from quadnorm.problems import problem
from quadnorm.training.config import TrainConfig
from quadnorm.training.run import train
from tests.problems.files.earth import COUNT, KINDS, fields, write

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "closed"])
def test_volumes_places_and_fields(tmp_path, kind):
    dataset = KINDS[kind]()
    p = problem("files", train=str(write(dataset, tmp_path, "netcdf4")))
    grid = dataset["a"].shape[1:]
    n = int(np.prod(grid))
    assert (p.placement, p.dim, p.inputs) == ("points", 3, ("volume", "x", "y", "z", "a"))
    assert p.shape(n) == p.shape(grid) == (n,)
    x, y = p.sample([4, 1], n, dtype=torch.float64)
    measure = qn.measure_of(dataset["a"], dataset)
    np.testing.assert_allclose(x[:, 0], measure.weights(measure.shape).reshape(1, -1).expand(2, -1), rtol=1e-9)
    np.testing.assert_allclose((x[:, 1:4] ** 2).sum(1), 1)
    np.testing.assert_allclose(x[:, 4].numpy(), dataset["a"].values[[4, 1]].reshape(2, -1))
    np.testing.assert_allclose(y[:, 0].numpy(), dataset["u"].values[[4, 1]].reshape(2, -1))
    assert "points, with volumes and coordinates" in p.card()
    with pytest.raises(ValueError, match="points, not nodes"):
        p.nodes(n)
    with pytest.raises(ValueError, match=f"points are stored at .*; got the resolution {n + 1}"):
        p.shape(n + 1)


def test_fields_stored_longitude_first(tmp_path):
    """The values and the weights turn together."""
    dataset = KINDS["gaussian"]()
    turned = dataset.transpose("sample", "lon", "lat")
    p = problem("files", train=str(write(dataset, tmp_path, "netcdf4")))
    q = problem("files", train=str(write(turned, tmp_path, "netcdf3")))
    a, b = p.sample([0], 128, dtype=torch.float64), q.sample([0], 128, dtype=torch.float64)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_an_even_sphere_as_points_weighs_by_area(tmp_path):
    path = str(write(KINDS["closed"](), tmp_path, "netcdf4"))
    assert problem("files", train=path).placement == "endpoint"
    p = problem("files", train=path, placement="points")
    x, _ = p.sample([0], (9, 17), dtype=torch.float64)
    w = x[0, 0].reshape(9, 17)
    np.testing.assert_allclose(w.sum(1), qn.LatLon("equiangular").weights((9, 4)).sum(1))
    np.testing.assert_allclose(w[:, 0] * 2, w[:, 1])


def test_an_uneven_line_of_npz(tmp_path):
    r = np.array([0.0, 0.1, 0.4, 1.0])
    np.savez(tmp_path / "a.npz", a=RNG.normal(size=(COUNT, 4)), u=RNG.normal(size=(COUNT, 4)), x=10 * r)
    p = problem("files", train=str(tmp_path / "a.npz"), axes=1)
    x, _ = p.sample([0], 4, dtype=torch.float64)
    assert (p.placement, p.dim) == ("points", 1)
    np.testing.assert_allclose(x[0, 0], [0.05, 0.2, 0.45, 0.3])
    np.testing.assert_allclose(x[0, 1], r)


def test_a_mask_of_nan_and_of_a_field(tmp_path):
    dataset = KINDS["gaussian"]()
    sea = RNG.random((8, 16))
    sea[0, :3] = 0
    dataset["sea"] = (("lat", "lon"), sea)
    nan = dataset.copy(deep=True)
    nan["a"][:, 2, 5:9] = np.nan
    nan["u"][3, 1, 1] = np.nan
    plain = problem("files", train=str(write(dataset, tmp_path, "netcdf4")))
    volumes = plain.sample([3], 128, dtype=torch.float64)[0][0, 0].numpy()
    for mask, part in (("sea", sea), ("~sea", 1 - sea)):
        p = problem("files", train=str(tmp_path / "a4.nc"), mask=mask)
        x, y = p.sample([3], 128, dtype=torch.float64)
        expected = volumes * part.reshape(-1)
        np.testing.assert_allclose(x[0, 0], expected / expected.sum())
        assert not y[0, 0][torch.from_numpy(expected) == 0].any()
    path = str(write(nan, tmp_path, "netcdf3"))
    with pytest.raises(ValueError, match="holds NaN"):
        problem("files", train=path).sample([3], 128)
    x, y = problem("files", train=path, mask="nan").sample([3, 0], 128, dtype=torch.float64)
    there = np.isfinite(nan["a"].values[[3, 0]] + nan["u"].values[[3, 0]]).reshape(2, -1)
    np.testing.assert_array_equal(x[:, 0] > 0, there)
    np.testing.assert_allclose(x[:, 0].sum(1), 1)
    assert bool(torch.isfinite(x).all() & torch.isfinite(y).all())


def test_a_mask_on_an_equispaced_grid_without_coordinates(tmp_path):
    a = RNG.normal(size=(COUNT, 8, 8))
    a[:, 3, 3] = np.nan
    np.savez(tmp_path / "a.npz", a=a, u=2 * a)
    p = problem("files", train=str(tmp_path / "a.npz"), placement="cell", mask="nan")
    x, _ = p.sample([1], (8, 8), dtype=torch.float64)
    assert (p.placement, p.dim) == ("points", 2)
    np.testing.assert_allclose(x[0, 0].reshape(8, 8), np.where(np.isnan(a[1]), 0, 1 / 63))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": "lsm"}, "unknown field 'lsm'"),
        ({"mask": "a"}, "the mask 'a' goes from .*; expected the part of each cell that is there"),
        ({"mask": ""}, "mask must be nan, or the name of a field"),
        ({"mask": "nan", "skip_nan": True}, "choose one"),
    ],
)
def test_refusals(tmp_path, options, words):
    path = str(write(KINDS["gaussian"](), tmp_path, "netcdf4"))
    with pytest.raises(ValueError, match=words):
        problem("files", train=path, **options).sample([0], 128)


def config(path, name, **params):
    return TrainConfig(
        problem={"name": "files", "params": {"train": path}},
        operator={"name": name, "params": {"width": 8, "layers": 1, "heads": 2, "norm": "quad", **params}},
        samples={"train": 4, "val": 1, "test": 1},
        epochs=2,
    )


@pytest.mark.parametrize("kind", ["gaussian", "curvilinear", "triangles"])
def test_training_there(tmp_path, kind):
    path = str(write(KINDS[kind](), tmp_path, "netcdf4"))
    result = train(config(path, "transolver", slices=4, measure="trapezoid"), tmp_path / "run", progress=False)
    assert np.isfinite(result.best_val)
    with pytest.raises(ValueError, match="operator 'fno' needs samples on a grid"):
        train(
            TrainConfig(
                problem={"name": "files", "params": {"train": path}},
                operator={"name": "fno", "params": {"width": 8, "modes": 2}},
                samples={"train": 4, "val": 1, "test": 1},
                epochs=1,
            ),
            tmp_path / "other",
            progress=False,
        )


def test_fields_helper_has_samples_first():
    assert fields(("x",), np.zeros(3))["a"].dims == ("sample", "x")


SURE = {
    "gaussian": "lat: Gaussian latitudes, lon: longitudes around the circle; sure: it follows from the coordinates",
    "closed": "longitudes, the first repeated at the end; sure: it follows from the coordinates",
    "bounded": "lat: cells, lon: longitudes around the circle; sure: stated in the file",
    "curvilinear": "corners of cells on the sphere; sure: stated in the file",
    "triangles": "corners of cells on the sphere; sure: stated in the file",
    "columns": "cell areas in 'area'; sure: stated in the file",
    "ugrid": "the nodes of a mesh, on the sphere; sure: stated in the file",
    "healpix": "HEALPix: equal areas; sure: stated in the file",
    "reduced": "Voronoi cells of points on the sphere; assumed: each point stands for what is nearest to it",
}


@pytest.mark.parametrize("kind", KINDS)
def test_show_says_it_in_ten_lines_and_draws_it(tmp_path, capsys, kind):
    from quadnorm.cli.app import run
    from quadnorm.problems.stored.describe import describe

    path = write(KINDS[kind](), tmp_path, "zarr" if kind == "columns" else "netcdf4")
    assert run(["data", "show", str(path), "-n", "1", "-o", str(tmp_path / "a.png")]) == 0
    assert "fields" not in capsys.readouterr().err
    assert (tmp_path / "a.png").stat().st_size > 5000
    card = str(describe(path))
    assert len(card.splitlines()) <= 10
    assert SURE[kind] in card


def test_what_is_assumed_or_missing_is_drawn_all_the_same(tmp_path, capsys):
    """Curvilinear without corners: cells end halfway; NaN on land stays white; a line is a curve."""
    from quadnorm.cli.app import run

    bent = KINDS["curvilinear"]().drop_vars(["vertices_lat", "vertices_lon"])
    for name in ("lat", "lon"):
        bent[name].attrs.pop("bounds")
    land = KINDS["gaussian"]()
    land["a"][:, 2, 5:9] = np.nan
    uneven = xr.Dataset({n: (("sample", "x"), RNG.normal(size=(COUNT, 4))) for n in "au"}, {"x": [0, 0.1, 0.4, 1]})
    for k, dataset in enumerate((bent, land, uneven)):
        path, picture = tmp_path / f"{k}.nc", tmp_path / f"{k}.png"
        dataset.to_netcdf(path, engine="h5netcdf")
        assert run(["data", "show", str(path), "-n", "1", "-o", str(picture)]) == 0, capsys.readouterr().err
        assert picture.stat().st_size > 5000
    assert "assumed: cells end halfway between nodes" in capsys.readouterr().out


def test_show_lists_the_fields_of_every_grid(tmp_path):
    from quadnorm.problems.stored.describe import describe

    dataset = KINDS["gaussian"]()
    dataset["coarse"] = (("sample", "lat2", "lon2"), np.zeros((COUNT, 3, 4)))
    dataset = dataset.assign_coords(lat2=("lat2", [-60.0, 0, 60]), lon2=("lon2", 90.0 * np.arange(4)))
    for name, units in (("lat2", "degrees_north"), ("lon2", "degrees_east")):
        dataset[name].attrs["units"] = units
    card = str(describe(write(dataset, tmp_path, "netcdf4")))
    assert "at 8×16" in card
    assert "other grid, 3×4: coarse (latitude cell, longitude periodic" in card


def test_a_card_of_many_grids_has_ten_lines(tmp_path):
    from quadnorm.problems.stored.describe import describe

    grids = {f"f{k}": (("sample", f"x{k}", f"y{k}"), np.zeros((COUNT, 4, 5 + k))) for k in range(12)}
    xr.Dataset(grids).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    lines = str(describe(tmp_path / "a.nc", placement="cell")).splitlines()
    assert len(lines) == 10
    assert lines[-1] == "and 5 grids more (--json lists them)"


def test_a_mask_is_a_fraction_at_each_resolution(tmp_path):
    """Trained where cells are partly sea, tested where they are sea or land: land counts in neither."""
    from quadnorm.training.evaluation import evaluate

    def written(name, n, part, values):
        where = {"y": (np.arange(n) + 0.5) / n, "x": (np.arange(n) + 0.5) / n}
        dims = ("sample", "x", "y")
        ds = xr.Dataset({"a": (dims, values), "u": (dims, 2 * values), "sea": (dims[1:], part)}, where)
        ds.to_netcdf(tmp_path / f"{name}.nc", engine="h5netcdf")
        return str(tmp_path / f"{name}.nc")

    def coarser(fine):
        return fine.reshape(*fine.shape[:-2], 8, 2, 8, 2).mean((-3, -1))

    sea = (RNG.random((16, 16)) > 0.4).astype(float)
    fine = RNG.normal(size=(COUNT, 16, 16))
    coarse = coarser(fine * sea) / np.where(coarser(sea) > 0, coarser(sea), 1)
    train_at, test_at = written("coarse", 8, coarser(sea), coarse), written("fine", 16, sea, fine)
    p = problem("files", train=train_at, test=test_at, mask="sea")
    x, y = p.sample([1], 64, dtype=torch.float64)
    w = coarser(sea).reshape(-1)
    np.testing.assert_allclose(x[0, 0], w / w.sum())
    np.testing.assert_allclose((x[0, 0] * y[0, 0]).sum(), 2 * (fine[1] * sea).sum() / sea.sum())  # the same mean

    settings = config(train_at, "transolver", slices=4)
    params = {"train": train_at, "test": test_at, "mask": "sea"}
    settings = settings.model_copy(update={"problem": settings.problem.model_copy(update={"params": params})})
    train(settings, tmp_path / "run", progress=False)
    before = evaluate(tmp_path / "run", [256]).grids[0].weighted
    written("fine", 16, sea, np.where(sea > 0, fine, 1e3))
    assert evaluate(tmp_path / "run", [256]).grids[0].weighted == before
