"""What works with PyTorch's layers works with operators: batched and second derivatives, devices, half precision."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from quadnorm import Anchored, Blend, Grid, LatLon, Weights
from quadnorm.norms import BlendQuadNorm, QuadNorm
from quadnorm.operators import FNO
from tests.operators.small_models import MODELS, OWN_WARNINGS, build

EACH = pytest.mark.parametrize("name", MODELS)


# --- derivatives -----------------------------------------------------------------------------------------------------


@EACH
def test_batched_derivatives(name):
    """autograd.grad(is_grads_batched=True), of inputs and parameters, is a loop over the derivatives."""
    model, x = build(name, norm="none"), torch.randn(2, 1, 6, 7, requires_grad=True)
    y = model(x)
    g, wanted = torch.randn(3, *y.shape), [x, *model.parameters()]
    batched = torch.autograd.grad(y, wanted, g, is_grads_batched=True, retain_graph=True)
    single = [torch.autograd.grad(y, wanted, one, retain_graph=True) for one in g]
    for k, together in enumerate(batched):
        torch.testing.assert_close(together, torch.stack([s[k] for s in single]), rtol=1e-4, atol=1e-6)


@OWN_WARNINGS
@EACH
def test_vectorized_jacobians(name):
    model, x = build(name, norm="none").double(), torch.randn(1, 1, 4, 5, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian
    expected = jacobian(lambda t: model(t).sum((2, 3)), x)
    torch.testing.assert_close(jacobian(lambda t: model(t).sum((2, 3)), x, vectorize=True), expected)
    forward = jacobian(lambda t: model(t).sum((2, 3)), x, vectorize=True, strategy="forward-mode")
    torch.testing.assert_close(forward, expected)


@OWN_WARNINGS
@EACH
def test_second_and_forward_derivatives(name):
    model = build(name, norm="none").double()
    x = torch.randn(1, 1, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, x, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(model, x, fast_mode=True)


# --- devices ---------------------------------------------------------------------------------------------------------


class HostReads(TorchDispatchMode):
    """Counts the values that are read back from a tensor."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


@EACH
def test_meta_and_default_device(name):
    with torch.device("meta"):
        model, x = build(name, norm="none", measure="trapezoid"), torch.randn(2, 1, 6, 7)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    y = model(x)
    assert (y.device.type, y.shape) == ("meta", (2, 1, 6, 7))
    y.sum().backward()
    here, field = build(name, norm="none", measure="trapezoid"), torch.randn(1, 1, 6, 7, device="cpu")
    expected, places = here(field), torch.rand(42, 2)
    with torch.device("meta"):  # where new tensors go must not matter to those that are there
        torch.testing.assert_close(here(field), expected)
        assert LatLon().weights((5, 4), device="cpu").device.type == "cpu"
        if name in ("galerkin", "transolver"):
            assert (
                here(field.flatten(2).mT, coordinates=places, weights=torch.ones(42, device="cpu")).device.type == "cpu"
            )


@EACH
def test_fake_tensors_do_not_meet_the_caches(name):
    """Real tensors of the caches do not reach a fake run, and its fake ones do not stay."""
    model, x = build(name, norm="none", measure="trapezoid"), torch.randn(1, 1, 6, 7)
    expected = model(x)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        assert model(torch.randn(1, 1, 6, 7)).shape == (1, 1, 6, 7)
        assert model(torch.randn(1, 1, 8, 9)).shape == (1, 1, 8, 9)
    torch.testing.assert_close(model(x), expected)
    assert model(torch.randn(1, 1, 8, 9)).isfinite().all()


@pytest.mark.parametrize("name", ["galerkin", "transolver"])
def test_points_cost_no_reads(name):
    model = build(name, norm="none", measure="trapezoid")
    x, r, w = torch.randn(2, 30, 1), torch.rand(30, 2), torch.rand(30)
    with HostReads() as reads:
        model(x, coordinates=r, weights=w).sum().backward()
    assert reads.count == 0


# --- half precision --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["counting", "trapezoid"])
@pytest.mark.parametrize("name", ["galerkin", "transolver"])
def test_float16_on_many_samples(name, measure):
    """66,049 samples: their plain sum is beyond float16, and 1/66,049 below what it resolves."""
    model = build(name, norm="none", measure=measure)
    x = torch.randn(1, 1, 257, 257) + 2
    expected = model(x)
    got = model.half()(x.half()).float()
    assert got.isfinite().all()
    assert (got - expected).norm() / expected.norm() < 5e-3


# --- empty batches, FFT, measures of norms ---------------------------------------------------------------------------


@EACH
def test_empty_batch(name):
    options = [{}, {"backend": "fft"}] if name in ("fno", "hermitian") else [{}]
    for option in options:
        model, x = build(name, norm="quad", **option), torch.zeros(0, 1, 6, 7, requires_grad=True)
        y = model(x)
        assert y.shape == (0, 1, 6, 7)
        y.sum().backward()
        assert all(p.grad is not None for p in model.parameters())


def test_fft_backend_serves_anchored_layers_and_refuses_others_at_once():
    model = FNO(width=4, modes=2, layers=1, norm="none", backend="fft")
    x, fine = torch.randn(1, 1, 9, 9), torch.randn(1, 1, 17, 17)
    expected = model(x)
    model.measure = Anchored((9, 9))
    torch.testing.assert_close(model(x), expected)
    dense = FNO(width=4, modes=2, layers=1, norm="none", backend="dense", measure=Anchored((9, 9)))
    dense.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(fine), dense(fine))
    for measure in ("trapezoid", Blend(0.5, Grid("periodic"))):
        with pytest.raises(ValueError, match="has at no resolution; use backend='auto' or 'dense'"):
            FNO(width=4, modes=2, layers=1, backend="fft", measure=measure)


@pytest.mark.parametrize(
    "measure",
    [
        LatLon(),
        Grid(("trapezoid", "periodic")),
        Grid("simpson"),
        Grid.from_coordinates([0.0, 0.1, 0.4, 0.8, 1.0], [0.0, 0.3, 0.7, 0.9, 1.0]),
        Grid("trapezoid").masked(torch.ones(5, 5, dtype=torch.bool)),
        Weights(torch.rand(5, 5)),
        Anchored((5, 5)),
    ],
    ids=lambda m: type(m).__name__,
)
@EACH
def test_norms_that_name_no_measure_take_the_operators(name, measure):
    def measures(norm):
        model = build(name, norm=norm, measure=measure)
        return {m.measure for m in model.modules() if isinstance(m, QuadNorm)}

    assert measures("quad:instance") == {measure}
    assert measures(QuadNorm) == {measure}
    assert measures("quad:boole") == {Grid("boole")}
    assert measures("layer") == {Grid("counting")}
    assert measures(BlendQuadNorm) == {Blend(0.3, measure)}


@EACH
def test_interior_is_a_placement_like_the_others(name):
    """Anchored at its training grid it is the model as trained; coordinates are (j+1)/(n+1)."""
    model = build(name, norm="none", placement="interior")
    x = torch.randn(1, 1, 7, 7)
    expected = model(x)
    model.measure = Anchored((7, 7), "interior")
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
    assert model(torch.randn(1, 1, 15, 15)).isfinite().all()
    quadrature = [
        m.measure for m in build(name, norm="quad", placement="interior").modules() if isinstance(m, QuadNorm)
    ]
    assert set(quadrature) == {Grid("interior")}


# --- weights and masks -----------------------------------------------------------------------------------------------


class Open(torch.nn.Module):
    """A norm that does nothing: what is left are the operator's own sums."""

    def __init__(self, channels):
        super().__init__()

    def forward(self, x, weights=None, mask=None):
        return x


@EACH
def test_mask_multiplies_the_measure_and_weights_replace_it(name):
    """As an operator with the masked measure, or with these weights as its measure; fill values are not read."""
    mask, w, x = torch.rand(6, 7) > 0.3, torch.rand(6, 7), torch.randn(2, 1, 6, 7)
    model = build(name, norm=Open, measure="trapezoid")
    filled = torch.where(mask, x, torch.nan)
    got, weighted = model(filled, mask=mask), model(x, weights=w)
    model.measure = Grid("trapezoid").masked(mask)
    torch.testing.assert_close(got[..., mask], model(torch.where(mask, x, 0.0))[..., mask], rtol=1e-4, atol=1e-6)
    model.measure = Weights(w)
    if name in ("fno", "hermitian"):  # their phases follow the measure's nodes: explicit weights have the placement's
        model = build(name, norm=Open, measure=Weights(w))
        other = build(name, norm=Open, measure="trapezoid")
        torch.testing.assert_close(other(x, weights=w), model(x), rtol=1e-4, atol=1e-6)
    else:
        torch.testing.assert_close(weighted, model(x), rtol=1e-4, atol=1e-6)
    each = torch.stack([mask, ~mask])  # one mask for each entry of a batch
    both = model(x, mask=each)
    torch.testing.assert_close(both[1], model(x[1:], mask=~mask)[0], rtol=1e-4, atol=1e-6)


@EACH
def test_a_mask_without_samples_is_refused_by_the_operator_itself(name):
    """Also where no norm would notice: its sums would be 0, and the output a number without meaning."""
    mask = torch.ones(2, 6, 7, dtype=torch.bool)
    mask[1] = False
    for norm in ("none", "token"):
        with pytest.raises(ValueError, match=r"the mask leaves nothing of batch entries \[1\]"):
            build(name, norm=norm)(torch.randn(2, 1, 6, 7), mask=mask)


@OWN_WARNINGS
def test_fno_in_onnxruntime():
    """The default exporter, plain operations only."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, x = build("fno", norm="none", measure="trapezoid").eval(), torch.randn(2, 1, 12, 13)
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert {node.domain for node in program.model_proto.graph.node} == {""}
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), model(x).detach(), rtol=1e-4, atol=1e-5)
