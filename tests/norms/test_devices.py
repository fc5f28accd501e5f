"""Other devices: nothing mixes them, and no value is read back to the host."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from quadnorm._precision import full_precision
from quadnorm.measures import Weights
from quadnorm.norms import make_norm, norm_names, quad_norm_ragged
from quadnorm.norms.kernels import dispatch
from quadnorm.norms.kernels.inputs import Inputs
from quadnorm.norms.weights import check_on_device

ALL = [*[n for n in norm_names() if n != "anchored"], "anchored:7", "quad:gauss-legendre", "blend:learned"]


def calls(layer, x, device):
    """Every way to call a layer."""
    spatial = x.shape[2:]
    yield layer(x)
    yield layer(x, weights=torch.ones(2, *spatial, device=device))
    yield layer(x, mask=torch.ones(spatial, dtype=torch.bool, device=device))


# These two index and draw random numbers in ways that a build for the CPU refuses on fake tensors of a GPU.
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("none", "learnablequad", "resconditioned")])
def test_fake_tensors_of_another_device(name):
    """A fake tensor has no values, so any read to the host would raise; a mix of devices raises as well.

    Without autograd, whose nodes ask for a stream that a build for the CPU does not have.
    """
    with FakeTensorMode(), torch.no_grad():
        layer = make_norm(name, 8, device="cuda")
        x = torch.empty(2, 8, 6, 7, device="cuda")
        try:
            y = layer(x)
        except RuntimeError as error:
            if "driver" not in str(error):
                raise
            pytest.skip("torch 2.6 for CUDA asks for a real device here (FFT, LayerNorm)")
        assert (y.device.type, y.shape) == ("cuda", x.shape)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("shared", [True, False])
def test_the_kernel_for_other_devices_reads_nothing_back(groups, shared):
    """Reading a value of a meta tensor raises."""
    x, gamma = torch.empty(2, 4, 30, device="meta"), torch.empty(4, device="meta")
    w = torch.empty(1 if shared else 2, 30, device="meta")
    given = Inputs(x, w, gamma, gamma, groups)
    y, stats = dispatch.forward(given)
    results = dispatch.backward(given, y, stats, wrt_w=True)
    assert [t.device.type for t in results] == ["meta"] * 4


@pytest.mark.parametrize("name", ALL)
def test_meta_tensors(name):
    layer = make_norm(name, 8, **({} if name == "none" else {"device": "meta"}))
    x = torch.empty(2, 8, 6, 7, device="meta", requires_grad=True)
    for y in calls(layer, x, "meta"):
        assert (y.device.type, y.shape) == ("meta", x.shape)
        y.sum().backward()


@pytest.mark.parametrize("name", ALL)
def test_a_default_device_does_not_leak_in(kernel, name):
    layer, x = make_norm(name, 8), torch.randn(2, 8, 6, 7, requires_grad=True)
    mask = torch.rand(6, 7) > 0.3
    want = [layer(x).detach(), layer(x, mask=mask).detach()]
    for p in layer.modules():
        p.__dict__.pop("_memo", None)
    with torch.device("meta"):
        got = [layer(x), layer(x, mask=mask)]
        got[1].sum().backward()
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.detach(), b)


def test_explicit_measures_and_ragged_batches_on_another_device():
    x, explicit = torch.empty(2, 8, 5, device="meta"), Weights(torch.rand(5))
    assert make_norm("quad", 8, measure=explicit, device="meta")(x).shape == x.shape
    cloud, w = torch.empty(9, 8, device="meta", requires_grad=True), torch.empty(9, device="meta")
    batch = torch.empty(9, dtype=torch.int64, device="meta")
    for size in (None, 3):
        quad_norm_ragged(cloud, w, batch, 2, batch_size=size).sum().backward()


def test_ragged_clouds_renumbered_on_a_device_are_the_same():
    """Devices other than the CPU do not read the number of clouds; here vmap hides it as they would."""
    x, w = torch.randn(2, 9, 4), torch.rand(9)
    batch = torch.tensor([7, 0, 7, 3, 3, 0, 0, 7, 3])
    hidden = torch.vmap(lambda x: quad_norm_ragged(x, w, batch, 2))(x)
    torch.testing.assert_close(hidden, torch.stack([quad_norm_ragged(v, w, batch, 2) for v in x]))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_full_precision_switches_autocast_off(device):
    """Autocast on a CUDA device would take its matrix products in half precision, where squares overflow."""
    with FakeTensorMode():
        x = torch.empty(1, device=device)
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, True)
    try:
        with full_precision(x):
            assert not torch.is_autocast_enabled(device)
        assert torch.is_autocast_enabled(device)
    finally:
        torch.set_autocast_enabled(device, before)


def test_large_half_precision_inputs_under_autocast(kernel):
    x = (torch.randn(2, 4, 33, 33) * 300).half()
    layer = make_norm("quad", 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    assert torch.equal(y, layer(x.float()).half())


def test_checks_on_the_device():
    check_on_device(torch.tensor([[1.0, 0.0], [3e38, 3e38]]))
    for bad in ([[-1.0, 2.0]], [[float("nan"), 1.0]], [[float("inf"), 1.0]], [[0.0, 0.0]]):
        with pytest.raises(RuntimeError, match="weights"):
            check_on_device(torch.tensor(bad))
