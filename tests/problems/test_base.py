"""What every problem promises: names, shapes, matched instances, streams, cards, clear refusals."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.measures.placement import placement_of
from quadnorm.problems import problem, problem_names
from quadnorm.problems.base import stream

SERIES = ["helmholtz", "poisson", "reaction-diffusion", "elasticity"]
SMALL = {  # the same code paths on fine grids that a test can afford
    "darcy": {"fine": 105, "modes": 48},
    "darcy cubic": {"fine": 105, "modes": 48, "restriction": "cubic"},
    "varcoeff": {"fine": 65},
    **{name: {} for name in SERIES},
}


def make(case, **more):
    return problem(case.split()[0], **SMALL[case], **more)


def test_names_are_listed_and_made():
    assert set(SERIES) | {"darcy", "varcoeff"} <= set(problem_names())
    assert problem("Reaction_Diffusion").name == "reaction-diffusion"


def test_unknown_names_suggest():
    with pytest.raises(ValueError, match="did you mean 'helmholtz'"):
        problem("helmholz")
    with pytest.raises(TypeError, match="poisson: unknown parameter 'mode'; did you mean 'modes'"):
        problem("poisson", mode=3)
    with pytest.raises(TypeError, match="unknown parameter 'block'; Known: decay, modes, placement"):
        problem("poisson", block=3)
    with pytest.raises(ValueError, match="unknown placement 'endpoints'; did you mean 'endpoint'"):
        problem("poisson", placement="endpoints")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("poisson", {"modes": 0}, "modes must be an integer at least 1 and at most 4096, got 0"),
        ("poisson", {"decay": -1.0}, "decay must be a number at least 0"),
        ("helmholtz", {"k_min": 3.0, "k_max": 2.0}, "k_min"),
        ("reaction-diffusion", {"diffusion": 0.0}, "diffusion must be a number above 0"),
        ("elasticity", {"poisson_ratio": 0.5}, "above -1 and below 0.5"),
        ("darcy", {"fine": 3}, "fine must be an integer at least 5"),
        ("darcy", {"low": 0.0}, "low must be a number above 0"),
        ("darcy", {"restriction": "cubes"}, "did you mean 'cubic'"),
        ("darcy", {"tol": 1.0}, "tol must be a number at least 1e-14 and at most 0.01"),
        ("poisson", {"modes": 2.5}, "modes must be an integer"),
        ("poisson", {"modes": True}, "modes must be an integer"),
        ("poisson", {"decay": "2"}, "decay must be a number"),
        ("poisson", {"decay": float("nan")}, "decay must be a number"),
        ("poisson", {"decay": 10**400}, "decay must be a number"),
        ("varcoeff", {"alpha": 1.0}, "alpha must be a number above 1"),
    ],
)
def test_senseless_parameters_are_refused(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        problem(name, **parameters)


def test_bad_requests_are_refused():
    p = problem("poisson")
    with pytest.raises(ValueError, match="at least one sample index"):
        p.sample([], 9)
    with pytest.raises(ValueError, match="none negative"):
        p.sample([3, -1], 9)
    with pytest.raises(ValueError, match="2 ints, each at least 2"):
        p.sample(1, (9, 9, 9))
    with pytest.raises(ValueError, match="each at least 2"):
        p.sample(1, 1)
    with pytest.raises(ValueError, match="seed must be a nonnegative integer"):
        p.sample(1, 9, seed=-1)
    with pytest.raises(ValueError, match=r"torch.float32 or torch.float64, got torch.float16"):
        p.sample(1, 9, dtype=torch.float16)
    with pytest.raises(ValueError, match="make the problem with fine=106 or more"):
        make("darcy").sample(1, 106)


@pytest.mark.parametrize("case", SMALL)
def test_shapes_dtypes_and_channels(case):
    p = make(case)
    x, y = p.sample(range(2, 5), resolution=(17, 23))
    assert x.shape == (3, len(p.inputs), 17, 23)
    assert y.shape == (3, len(p.outputs), 17, 23)
    assert x.dtype == y.dtype == torch.float32
    assert torch.isfinite(x).all()
    assert torch.isfinite(y).all()
    assert y.flatten(1).std(1).min() > 0


@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("n", [9, 12, 33])
def test_every_second_node_of_the_finer_grid(case, n):
    """Endpoint-inclusive grids of n and 2n−1 nodes nest, so their samples agree there to rounding."""
    p = make(case)
    (x, y), (fx, fy) = p.sample_many(range(3), [n, 2 * n - 1], seed=1, dtype=torch.float64)
    for coarse, fine in ((x, fx), (y, fy)):
        scale = coarse.abs().max()
        assert (fine[..., ::2, ::2] - coarse).abs().max() <= 1e-13 * scale


@pytest.mark.parametrize("case", SMALL)
def test_bits_depend_on_the_index_alone(case):
    """Not on the batch, its order, the number of workers, the other resolutions, or the way of asking."""
    p = make(case)
    x, y = p.sample(range(5), 21, seed=3)
    for indices, workers in (([3], 1), ([4, 0, 3], 2), (range(20), 4)):
        got_x, got_y = p.sample(indices, 21, seed=3, workers=workers)
        at = list(indices).index(3)
        assert torch.equal(got_x[at], x[3])
        assert torch.equal(got_y[at], y[3])
    (_, other) = p.sample_many(range(5), [13, 21], seed=3)
    assert torch.equal(other[0], x)
    assert torch.equal(other[1], y)
    parts = list(p.batches(range(5), 21, seed=3))
    assert torch.equal(torch.cat([b for _, b in parts]), y)


@pytest.mark.parametrize("case", SMALL)
def test_seeds_and_indices_differ(case):
    p = make(case)
    x, _ = p.sample(3, 17, seed=0)
    other, _ = p.sample(3, 17, seed=1)
    drawn = torch.cat([x, other])[:, 0].flatten(1)
    assert torch.unique(drawn, dim=0).shape[0] == 6


def test_numpy_integers_are_integers():
    p = problem("poisson")
    x, _ = p.sample(np.int64(2), np.int64(9))
    assert torch.equal(x, p.sample(range(2), (9, 9))[0])


def test_whole_numbers_of_any_library():
    p = problem("poisson")
    expected = p.sample([0, 2], (9, 7))[0]
    for indices in (np.array([0, 2]), torch.tensor([0, 2]), iter([0, 2])):
        assert torch.equal(p.sample(indices, (9, 7))[0], expected)
    for resolution in (np.array([9, 7]), torch.Size([9, 7]), torch.tensor([9, 7])):
        assert torch.equal(p.sample([0, 2], resolution)[0], expected)
    assert torch.equal(p.sample(torch.tensor(2), torch.tensor(9))[0], p.sample(2, 9)[0])


@pytest.mark.parametrize(
    "indices",
    [[0.5, 1.7], "12", True, [True, False], np.array([True, False]), 2.0, None, slice(2), np.zeros((2, 2), int)],
)
def test_indices_that_are_no_whole_numbers_are_refused(indices):
    """They were once rounded: a boolean mask drew the samples 0 and 1."""
    with pytest.raises(ValueError, match="whole numbers and none negative"):
        problem("poisson").sample(indices, 9)


@pytest.mark.parametrize("resolution", [9.0, None, "9", [9.0, 9.0], torch.tensor([[9, 9]])])
def test_resolutions_that_are_no_whole_numbers_are_refused(resolution):
    with pytest.raises(ValueError, match="resolution must be an int or 2 ints"):
        problem("poisson").sample(2, resolution)


def test_samples_are_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        x, y = problem("poisson").sample(2, 9)
    assert x.is_cpu
    assert torch.equal(y, problem("poisson").sample(2, 9)[1])


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_counted(workers):
    with pytest.raises(ValueError, match="workers must be a positive int"):
        problem("poisson").sample(1, 9, workers=workers)


def test_an_error_in_a_worker_is_raised():
    with pytest.raises(ValueError, match="finer than the solve"):
        make("darcy").sample(3, 300, workers=2)


def test_threads_of_the_linear_algebra_do_not_change_bits():
    script = (
        "import hashlib; from quadnorm.problems import problem\n"
        "for name, kw in (('elasticity', {}), ('helmholtz', {}), ('varcoeff', {'fine': 65})):\n"
        "    x, y = problem(name, **kw).sample(6, 128, workers=2) if not kw else problem(name, **kw).sample(6, 40)\n"
        "    print(hashlib.sha256(x.numpy().tobytes() + y.numpy().tobytes()).hexdigest())\n"
    )
    seen = set()
    for threads in ("1", "4"):
        env = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "PATH": ""}
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        seen.add(done.stdout)
    assert len(seen) == 1


def test_streams_are_pinned():
    """Philox keyed by a hash of the names: every cached or published sample relies on these numbers."""
    assert stream("darcy", 0, 0).integers(0, 2**32, 3).tolist() == PINNED["darcy", 0, 0]
    assert stream("darcy", 0, 1, "g").integers(0, 2**32, 3).tolist() == PINNED["darcy", 0, 1, "g"]


PINNED = {
    ("darcy", 0, 0): [1048323227, 2059786609, 173961940],
    ("darcy", 0, 1, "g"): [669432806, 1767830952, 2790007297],
}


@settings(max_examples=50)
@given(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 99), st.integers(0, 99), st.sampled_from(["", "g"])),
    st.data(),
)
def test_streams_of_different_names_differ(one, data):
    other = data.draw(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 99), st.integers(0, 99), st.sampled_from(["", "g"]))
    )
    same = bool((stream(*one).standard_normal(4) == stream(*other).standard_normal(4)).all())
    assert same == (one == other)


def test_stream_moments():
    """10⁵ numbers drawn one per stream are standard normal: streams of neighbouring indices are independent."""
    z = np.array([stream("x", 0, i).standard_normal(2) for i in range(20_000)])
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
    assert abs((z[1:, 0] * z[:-1, 0]).mean()) < 4 / np.sqrt(len(z))


@pytest.mark.parametrize("case", SMALL)
def test_cards_say_what_a_reader_needs(case):
    p = make(case)
    card = p.card()
    for word in ("Boundary:", "Input → output:", "Law:", "Nodes:", "Solver:", "Cost:", "Left open by the paper:"):
        assert word in card
    for name, value in p.parameters().items():
        assert f"{name}={value!r}" in card


@pytest.mark.parametrize(
    ("placement", "nodes"),
    [
        ("endpoint", [0, 1 / 3, 2 / 3, 1]),
        ("cell", [1 / 8, 3 / 8, 5 / 8, 7 / 8]),
        ("periodic", [0, 1 / 4, 1 / 2, 3 / 4]),
        ("left", [0, 1 / 4, 1 / 2, 3 / 4]),
        ("interior", [1 / 5, 2 / 5, 3 / 5, 4 / 5]),
    ],
)
def test_nodes(placement, nodes):
    np.testing.assert_allclose(placement_of(placement).nodes(4), nodes, rtol=1e-15)


def test_a_whole_number_will_do_for_a_real_one():
    assert problem("navier-stokes", start=2, horizon=3).key() == problem("navier-stokes").key()


def test_what_does_not_fit_into_memory_is_refused_before_it_is_made():
    with pytest.raises(ValueError, match=r"10 samples of poisson at 500000 would need 20.0 TB of memory; .* are free"):
        problem("poisson").sample(10, 500_000)
