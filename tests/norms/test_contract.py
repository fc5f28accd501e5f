"""What holds for every layer, mode, dimension and kernel."""

import copy
import pickle

import pytest
import torch
from torch import nn

from quadnorm.measures import Anchored, Blend, Grid, Weights
from quadnorm.norms import AnchoredNorm, BlendQuadNorm, QuadNorm, QuadRMSNorm, quad_norm
from tests.norms.reference import MODES, counting_weights, randomized, reference, trapezoid_weights

# PyTorch's own forward-mode rules are scripted on first use, and it warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

SHAPES = [(3, 4, 7), (2, 4, 6, 5), (2, 4, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("mode", "num_groups", "groups"), MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_is_the_formula(kernel, shape, mode, num_groups, groups, dtype, affine):
    layer = randomized(QuadNorm(4, 1e-3, affine, mode, num_groups, dtype=dtype))
    x = torch.randn(shape, dtype=dtype) * 3 + 2
    want = reference(x, trapezoid_weights(shape[2:]), groups, layer.weight, layer.bias, 1e-3)
    got = layer(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), want, atol=2e-6 if dtype == torch.float32 else 1e-13, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_other_layers_are_the_formula(kernel, shape):
    x = torch.randn(shape, dtype=torch.float64) + 1
    t, c = trapezoid_weights(shape[2:]), counting_weights(shape[2:])
    blend = BlendQuadNorm(4, 0.3, affine=False).double()
    torch.testing.assert_close(blend(x), reference(x, 0.3 * c + 0.7 * t))
    rms = randomized(QuadRMSNorm(4)).double()
    torch.testing.assert_close(rms(x), reference(x, t, 4, rms.weight, centre=False))
    anchored = AnchoredNorm(4, shape[2:]).double()
    torch.testing.assert_close(anchored(x), reference(x, c))


def test_anchored_norm_takes_a_measure_or_the_grid_to_anchor_to():
    """A measure is used as it is; a Grid is the training grid, whose counting measure is carried on."""
    line = torch.tensor([0.0, 0.1, 0.4, 1.0])
    x = torch.randn(2, 4, 4, dtype=torch.float64)
    for measure in (Anchored(9), Blend(0.3, Grid("trapezoid"))):
        assert AnchoredNorm(4, measure).measure is measure
    carried = AnchoredNorm(4, Grid.from_coordinates(line)).double()
    assert isinstance(carried.measure, Anchored)
    assert carried.measure.anchor == (4,)
    torch.testing.assert_close(carried(x), reference(x, counting_weights((4,))))
    assert not torch.allclose(carried(x), QuadNorm(4, measure=Grid.from_coordinates(line)).double()(x), atol=1e-2)


def test_blend_moments_are_the_papers(kernel):
    """eq:blend-mu and eq:blend-var, written out: both mean and variance of the blend."""
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64).cumsum(2)
    w = torch.from_numpy(trapezoid_weights((9, 8)))
    for alpha in (0.0, 0.3, 0.75, 1.0):
        mu_ln, mu_w = x.mean((1, 2, 3)), (x * w).sum((1, 2, 3)) / 3
        v_ln = (x - mu_ln[:, None, None, None]).square().mean((1, 2, 3))
        v_w = ((x - mu_w[:, None, None, None]).square() * w).sum((1, 2, 3)) / 3
        mu = alpha * mu_ln + (1 - alpha) * mu_w
        v = alpha * v_ln + (1 - alpha) * v_w + alpha * (1 - alpha) * (mu_ln - mu_w) ** 2
        want = (x - mu[:, None, None, None]) / (v + 1e-5).sqrt()[:, None, None, None]
        torch.testing.assert_close(BlendQuadNorm(3, alpha, affine=False)(x), want)


@pytest.mark.parametrize(("mode", "num_groups", "groups"), MODES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 4, 3, 2), (1, 4, 2, 2, 2)])
def test_gradients(kernel, mode, num_groups, groups, affine, shape):
    layer = randomized(QuadNorm(4, 1e-2, affine, mode, num_groups, dtype=torch.float64))
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True), *layer.parameters()]

    def f(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(("weight", "bias"), parameters, strict=False)), (x,))

    assert torch.autograd.gradcheck(f, inputs, fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gradients_for_the_weights(kernel, per_sample, groups):
    x = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    w = torch.rand(*([2] if per_sample else []), 5, dtype=torch.float64).add(0.2).requires_grad_()
    scale = torch.rand(4, dtype=torch.float64).add(0.5).requires_grad_()

    def f(x, w, scale):
        return quad_norm(x, w, groups, scale, eps=1e-2)

    assert torch.autograd.gradcheck(f, (x, w, scale), fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x, w, scale), fast_mode=True)


def test_gradients_of_rms_and_learned_alpha(kernel):
    x = torch.randn(2, 3, 4, 3, dtype=torch.float64, requires_grad=True)
    for layer in (QuadRMSNorm(3, 1e-2).double(), BlendQuadNorm(3, learn_alpha=True).double()):
        names = [n for n, _ in layer.named_parameters()]

        def f(x, *parameters, layer=layer, names=names):
            return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

        assert torch.autograd.gradcheck(f, (x, *layer.parameters()), fast_mode=True, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, (x, *layer.parameters()), fast_mode=True)


def test_memory_layouts(kernel):
    layer = randomized(QuadNorm(4))
    x = torch.randn(2, 4, 6, 8)
    want = layer(x)
    for same in (x.to(memory_format=torch.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        z = same.detach().requires_grad_()
        torch.testing.assert_close(layer(z), want)
        layer(z).square().sum().backward()
        ref = x.clone().requires_grad_()
        layer(ref).square().sum().backward()
        torch.testing.assert_close(z.grad, ref.grad, atol=1e-5, rtol=1e-5)
    v = torch.randn(2, 4, 3, 4, 5)
    torch.testing.assert_close(layer(v.to(memory_format=torch.channels_last_3d)), layer(v))
    one = torch.randn(1, 4, 6, 8)
    torch.testing.assert_close(layer(one.expand(3, 4, 6, 8)), layer(one).expand(3, 4, 6, 8))
    torch.testing.assert_close(layer(x[:, :, ::2, 1:]), layer(x[:, :, ::2, 1:].clone()))


def test_channels_last_and_tokens(kernel):
    x = torch.randn(2, 4, 6, 8)
    w = torch.rand(6, 8)
    for make in (lambda **k: QuadNorm(4, **k), lambda **k: BlendQuadNorm(4, **k), lambda **k: AnchoredNorm(4, 9, **k)):
        want, weighted = make()(x), make()(x, weights=w)
        last = make(layout="last")
        torch.testing.assert_close(last(x.movedim(1, -1)).movedim(-1, 1), want)
        torch.testing.assert_close(last(x.movedim(1, -1), weights=w).movedim(-1, 1), weighted)
        tokens = make(layout=(6, 8))
        flat = x.flatten(2).mT
        torch.testing.assert_close(tokens(flat).mT.reshape(x.shape), want)
        torch.testing.assert_close(tokens(flat, weights=w.flatten()).mT.reshape(x.shape), weighted)
    with pytest.raises(ValueError, match="N = 48"):
        tokens(torch.randn(2, 50, 4))
    tokens.layout = (5, 10)
    assert tokens(torch.randn(2, 50, 4)).shape == (2, 50, 4)
    with pytest.raises(ValueError, match="layout"):
        QuadNorm(4, layout="middle")


def test_wrong_input_says_what_to_do():
    layer = QuadNorm(4)
    with pytest.raises(ValueError, match="4 channels"):
        layer(torch.randn(2, 3, 5))
    with pytest.raises(ValueError, match="spatial axis"):
        layer(torch.randn(2, 4))
    with pytest.raises(TypeError, match=r"x\.float"):
        layer(torch.ones(2, 4, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="divide"):
        QuadNorm(4, mode="group", num_groups=3)
    with pytest.raises(ValueError, match="instance"):
        QuadNorm(4, mode="instanc")
    with pytest.raises(ValueError, match="num_features"):
        QuadNorm(0)
    for alpha in (-0.1, 1.1, float("nan"), "0.3"):
        with pytest.raises(ValueError, match="alpha"):
            BlendQuadNorm(4, alpha)
    with pytest.raises(ValueError, match="strictly"):
        BlendQuadNorm(4, 1.0, learn_alpha=True)
    with pytest.raises(ValueError, match="shape"):
        QuadNorm(4, measure=Weights(torch.ones(5)))(torch.randn(1, 4, 6))


def test_meta_device():
    y = QuadNorm(4, device="meta")(torch.randn(2, 4, 8, 8, device="meta"))
    assert y.device.type == "meta"
    assert y.shape == (2, 4, 8, 8)


def test_one_module_at_many_resolutions_copies_and_pickles():
    layer = randomized(BlendQuadNorm(4))
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    for shape in [(2, 4, 5), (1, 4, 9, 7), (2, 4, 3, 3, 3), (1, 4, 65)]:
        x = torch.randn(shape)
        want = layer(x)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(other(x), want)
    assert list(layer.state_dict()) == ["weight", "bias"] == list(before)
    assert len(pickle.dumps(layer)) < 5000  # no weights of a grid inside


def test_state_of_the_papers_listing_loads():
    state = {"weight": torch.rand(4), "bias": torch.rand(4)}
    for layer in (QuadNorm(4), QuadNorm(4, mode="instance"), BlendQuadNorm(4), AnchoredNorm(4, 9)):
        layer.load_state_dict(state)
        assert torch.equal(layer.bias, state["bias"])
    assert list(BlendQuadNorm(4, learn_alpha=True).state_dict()) == ["weight", "bias", "alpha_logit"]
    assert QuadNorm(4, affine=False).state_dict() == {}


def test_measure_can_be_set(kernel):
    layer = QuadNorm(2)
    x = torch.randn(1, 2, 9)
    layer(x)
    layer.measure = Anchored(9)
    assert torch.equal(layer(x), nn.functional.group_norm(x, 1, layer.weight, layer.bias))
    layer.measure = "simpson"
    assert layer.measure == Grid("simpson")
    w = torch.tensor([1, 4, 2, 4, 2, 4, 2, 4, 1.0])
    torch.testing.assert_close(layer(x).double(), reference(x, w), atol=1e-6, rtol=0)
    blend = BlendQuadNorm(2, learn_alpha=True)
    assert isinstance(blend.measure, Blend)
    assert blend.alpha == pytest.approx(0.3)
    blend.measure = Anchored(9)
    assert torch.equal(blend(x), nn.functional.group_norm(x, 1, blend.weight, blend.bias))


def test_saved_for_backward(kernel):
    """As much as native GroupNorm keeps: x and two numbers per group; one more per group, and the shared weights."""

    def saved(layer, x):
        sizes = {}

        def pack(t):
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            layer(x)
        return sum(sizes.values())

    B, C, n = 3, 4, 16
    x = torch.randn(B, C, n, n, requires_grad=True)
    native = saved(nn.GroupNorm(C, C), x)
    ours = saved(QuadNorm(C, mode="instance"), x) - n * n * 4  # the weights are shared by all layers of a network
    assert ours <= native + B * C * 4


def test_a_learned_blend_counts_as_its_measure_says():
    """As anchoring sets it: counting is that of the training grid, on every grid."""
    learned, fixed = BlendQuadNorm(2, learn_alpha=True), BlendQuadNorm(2)
    learned.measure = fixed.measure = Blend(0.3, Grid("trapezoid"), Anchored((9, 9)))
    x = torch.randn(2, 2, 17, 17).cumsum(-1)
    torch.testing.assert_close(learned(x), fixed(x))


def test_group_mode_has_one_group_unless_told():
    x = torch.randn(2, 4, 9)
    assert torch.equal(QuadNorm(4, mode="group")(x), QuadNorm(4)(x))
