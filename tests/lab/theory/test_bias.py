"""Bias on one mesh: against moments and a layer written out here, on coordinates built here."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quadnorm import QuadNorm
from quadnorm.lab.theory.bias import BOX_FIELDS, ExactField, bias, box_field, ratio, sphere_field, sweep


def midpoints(n, dim):
    t = (np.arange(n) + 0.5) / n
    return np.stack(np.meshgrid(*[t] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", BOX_FIELDS)
def test_box_fields_have_the_moments_they_claim(name, dim):
    """Midpoint sums: order h² for the smooth fields, and h for the step."""
    u = box_field(name, dim).values(midpoints({1: 20000, 2: 400, 3: 60}[dim], dim))
    near = 2e-2 if name == "step" else 2e-3
    assert u.mean() == pytest.approx(box_field(name, dim).mean, abs=near)
    assert (u**2).mean() == pytest.approx(box_field(name, dim).mean_square, rel=near)


def test_the_spheres_field_has_the_moments_it_claims():
    """Archimedes: z is even on [−1, 1] for points even on the sphere, the longitude even on the circle."""
    z = midpoints(400, 1)[:, 0] * 2 - 1
    turn = 2 * np.pi * np.arange(64) / 64
    r = np.sqrt(1 - z**2)
    x, y = r[:, None] * np.cos(turn), r[:, None] * np.sin(turn)
    u = sphere_field().values(np.stack([x, y, np.broadcast_to(z[:, None], x.shape)], axis=-1).reshape(-1, 3))
    assert u.mean() == pytest.approx(1 / 3, abs=1e-5)
    assert (u**2).mean() == pytest.approx(3 / 5, abs=1e-5)


def test_errors_are_those_of_sums_written_out():
    rng = np.random.default_rng(3)
    points, w = rng.random((50, 2)), rng.random(50)
    field = box_field("exponential", 2)
    u = np.exp(points[:, 0] + points[:, 1])
    mean, square = (math.e - 1) ** 2, ((math.e**2 - 1) / 2) ** 2
    variance = square - mean**2
    measured = bias(points, w, field, eps=1e-3)
    for errors, p in ((measured.counting, np.full(50, 1 / 50)), (measured.quadrature, w / w.sum())):
        m = sum(p[i] * u[i] for i in range(50))
        v = sum(p[i] * (u[i] - m) ** 2 for i in range(50))
        assert errors.mean == pytest.approx(abs(m - mean) / math.sqrt(variance))
        assert errors.variance == pytest.approx(abs(v - variance) / variance)
        gap = (u - m) / math.sqrt(v + 1e-3) - (u - mean) / math.sqrt(variance + 1e-3)
        assert errors.output == pytest.approx(abs(gap).max())
    assert measured.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_the_output_is_the_layers():
    """QuadNorm itself on the same samples, float64."""
    points = np.linspace(0, 1, 33)[:, None] ** 2
    w = np.gradient(points[:, 0])
    field = box_field("sines", 1)
    u = np.sin(np.pi * points[:, 0])
    layer = QuadNorm(1, affine=False)
    y = layer(torch.from_numpy(u)[None, None], weights=torch.from_numpy(w))[0, 0].numpy()
    exact = (u - 2 / np.pi) / np.sqrt(1 / 2 - 4 / np.pi**2 + 1e-5)
    assert bias(points, w, field).quadrature.output == pytest.approx(abs(y - exact).max(), rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, 12, elements=st.floats(0.01, 10)),
    st.floats(0.1, 1000),
    st.floats(-50, 50),
    st.floats(0.1, 20),
)
def test_no_unit_matters(w, scale, shift, stretch):
    """Volumes in any unit, fields in any unit and from any zero: the same errors (ε scales with the variance)."""
    points = np.linspace(0, 1, 12)[:, None] ** 1.5
    plain = bias(points, w, lambda p: np.exp(p[:, 0]), (math.e - 1, (math.e**2 - 1) / 2), eps=0.0)
    mean, square = math.e - 1, (math.e**2 - 1) / 2
    moved = (stretch * mean + shift, stretch**2 * square + 2 * stretch * shift * mean + shift**2)
    other = bias(points, scale * w, lambda p: stretch * np.exp(p[:, 0]) + shift, moved, eps=0.0)
    near = 1e-9 * (1 + (shift / stretch) ** 2)
    for a, b in ((plain.counting, other.counting), (plain.quadrature, other.quadrature)):
        for name in ("mean", "variance", "output"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), abs=near)


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(10)), arrays(np.float64, 10, elements=st.floats(0.1, 5)))
def test_the_order_of_samples_does_not_matter(order, w):
    points = np.linspace(0, 1, 10)[:, None]
    a = bias(points, w, box_field("exponential", 1))
    b = bias(points[list(order)], w[list(order)], box_field("exponential", 1))
    assert a.quadrature.mean == pytest.approx(b.quadrature.mean, abs=1e-12)
    assert a.counting.output == pytest.approx(b.counting.output, abs=1e-12)


def test_equal_weights_and_constants_leave_nothing_to_divide():
    points = midpoints(8, 2)
    same = bias(points, np.ones(64), box_field("sines", 2))
    assert same.factor("mean") == pytest.approx(1, rel=1e-10)
    assert same.effective == pytest.approx(64)
    constant = bias(points, np.arange(1.0, 65.0), box_field("constant", 2))
    assert constant.counting.output == constant.quadrature.output == 0
    assert math.isnan(constant.factor("mean"))
    assert ratio(1.0, 0.0) == math.inf


def test_values_functions_and_fields_say_the_same():
    points, w = np.linspace(0, 1, 9)[:, None], np.ones(9)
    f = box_field("parabolas", 1)
    exact = (2 / 3, 8 / 15)
    values = 4 * points[:, 0] * (1 - points[:, 0])
    assert bias(points, w, f) == bias(points, w, f.values, exact) == bias(points, w, values, exact)
    assert bias(torch.from_numpy(points), torch.from_numpy(w), f) == bias(points, w, f)
    assert "factor" in str(bias(points, w, f))


def test_what_is_refused():
    points, w, f = np.zeros((3, 2)), np.ones(3), box_field("sines", 2)
    with pytest.raises(ValueError, match=r"points \(N, D\) and weights"):
        bias(points[:, 0], w, f)
    with pytest.raises(ValueError, match=r"points \(N, D\) and weights"):
        bias(points, np.ones(4), f)
    with pytest.raises(ValueError, match="they are volumes"):
        bias(points, -w, f)
    with pytest.raises(ValueError, match="exact moments are unknown"):
        bias(points, w, f.values)
    with pytest.raises(ValueError, match="brings its exact moments"):
        bias(points, w, f, (0.0, 1.0))
    with pytest.raises(ValueError, match="one finite value"):
        bias(points, w, np.full(3, np.nan), (0.0, 1.0))
    with pytest.raises(ValueError, match="no function has the mean"):
        ExactField("wrong", f.values, 2.0, 1.0)
    with pytest.raises(ValueError, match="did you mean 'sines'"):
        box_field("sinus")
    with pytest.raises(ValueError, match="one dimension or more"):
        box_field("sines", 0)


def test_a_sweep_groups_meshes_of_one_spacing():
    """Root mean square over draws; h from the number of points where it is not given."""
    f = ExactField("ramp", lambda p: p[:, 0], 1 / 2, 1 / 3)
    shifts = (0.03, 0.04)
    swept = sweep(((np.array([[0.25 + s], [0.75 + s]]), np.ones(2)) for s in shifts), f, "two")
    assert swept.h == (0.5,)
    rms = math.sqrt((0.03**2 + 0.04**2) / 2) / math.sqrt(1 / 12)
    assert swept.errors("counting")[0] == pytest.approx(rms)
    assert swept.series("counting").name == "two, mean, counting"
