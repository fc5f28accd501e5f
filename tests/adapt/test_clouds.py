"""Models on clouds of points: extended, anchored, and run on their training points."""

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt import CannotFollowError
from quadnorm.adapt.clouds.base import drawn, point_axes
from quadnorm.operators import Transolver

COUNT = 60


class Slices(nn.Module):
    """Transolver's physics attention as people write it: the sums over points are einsums and a plain sum."""

    def __init__(self, channels=3, width=16, slices=5):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, width))
        self.slice, self.norm = nn.Linear(width, slices), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, 1)

    def forward(self, x, pos=None):
        v = self.lift(x if pos is None else torch.cat([x, pos.expand(*x.shape[:-1], -1)], -1))
        z = self.norm(v)
        s = torch.softmax(self.slice(z) / 0.5, -1)
        t = torch.einsum("...nc,...ng->...gc", z, s) / (s.sum(-2)[..., None] + 1e-5)
        t = torch.softmax(self.query(t) @ self.key(t).mT / 4, -1) @ self.value(t)
        return self.head(v + self.out(torch.einsum("...gc,...ng->...nc", t, s)))


def values(pos):
    return torch.sin(3 * pos.sum(-1, keepdim=True)) + pos[..., :1] ** 2


@pytest.fixture
def cloud():
    return torch.rand(500, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Slices().eval()


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def sums_of(model, native, others):
    """The definition, written out for ``Slices``: slices averaged over the native points, shared out to the others."""
    with torch.no_grad():
        tokens = {}
        for name, (x, pos) in {"native": native, "others": others}.items():
            v = model.lift(torch.cat([x, pos.expand(*x.shape[:-1], -1)], -1))
            z = model.norm(v)
            tokens[name] = v, z, torch.softmax(model.slice(z) / 0.5, -1)
        _, z, s = tokens["native"]
        t = torch.einsum("...nc,...ng->...gc", z, s) / (s.sum(-2)[..., None] + 1e-5)
        t = torch.softmax(model.query(t) @ model.key(t).mT / 4, -1) @ model.value(t)
        v, _, s = tokens["others"]
        return model.head(v + model.out(torch.einsum("...gc,...ng->...nc", t, s)))


@torch.no_grad()
def test_sums_over_the_subset_and_every_point_a_query(model, cloud):
    x = values(cloud)[None]
    extended = qn.extend(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))
    assert "extended from 60 points: 2 calls replayed" in str(extended.extend_report)
    subset = torch.arange(7, 7 + COUNT)
    y = extended(x, cloud, subset=subset)
    close(y, sums_of(model, (x[:, subset], cloud[subset]), (x, cloud)))
    close(y[:, subset], model(x[:, subset], cloud[subset]))
    assert (model(x, cloud)[:, subset] - y[:, subset]).norm() > 1e-3 * y.norm()


@torch.no_grad()
@pytest.mark.parametrize("total", [COUNT + 1, 2 * COUNT, 2 * COUNT + 1, 400])
@pytest.mark.parametrize("chunk", [1, 7, COUNT, 1000])
def test_chunks_do_not_matter(model, cloud, total, chunk):
    x, pos = values(cloud)[None, :total], cloud[:total]
    extended = qn.extend(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))
    expected = extended(x, pos)
    extended.chunk = chunk
    close(extended(x, pos), expected)


@torch.no_grad()
def test_memory_is_that_of_a_chunk(model, cloud):
    sizes = []
    model.lift.register_forward_hook(lambda m, args, y: sizes.append(args[0].shape[1]))
    extended = qn.extend(model, COUNT, layout="points", example=(values(cloud)[None, :COUNT], cloud[:COUNT]))
    sizes.clear()
    big = torch.rand(20_000, 2)
    extended(values(big)[None], big)
    assert max(sizes) == 2 * COUNT + 1


@torch.no_grad()
def test_the_trained_number_runs_as_it_is(model, cloud):
    x, pos = values(cloud)[None, :COUNT], cloud[:COUNT]
    for adapted in (
        qn.extend(model, COUNT, layout="points", example=(x, pos)),
        qn.anchor(model, COUNT, layout="points", example=(x, pos)),
    ):
        assert torch.equal(adapted(x, pos), model(x, pos))


@torch.no_grad()
def test_inputs_as_people_have_them(model, cloud):
    x, pos = values(cloud)[None], cloud
    few = slice(0, COUNT)
    expected = qn.extend(model, COUNT, layout="points", example=(x[:, few], pos[few]))(x, pos)

    class Dict(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, sample):
            return {"u": self.inner(sample["x"], sample["pos"])}

    example = ({"x": x[:, few], "pos": pos[few]},)
    close(qn.extend(Dict(), COUNT, layout="points", example=example)({"x": x, "pos": pos})["u"], expected)

    both = torch.cat([x, pos[None]], -1)  # coordinates among the channels; no example is needed
    close(qn.extend(model, COUNT, layout="points")(both), expected)

    named = qn.extend(model, COUNT, layout="points", example={"x": x[:, few], "pos": pos[few]})
    close(named(x=x, pos=pos), expected)

    flat = qn.extend(model, COUNT, layout="points", example=(x[0, few], pos[few]))
    close(flat(x[0], pos), expected[0])


class Data:
    """As much of PyTorch Geometric's ``Data`` as counts: named values, no mapping."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def keys(self):
        return list(self.__dict__)

    def __getitem__(self, name):
        return self.__dict__[name]

    def __setitem__(self, name, value):
        self.__dict__[name] = value


class OnData(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, data):
        return self.inner(data.x, data.pos)


@torch.no_grad()
def test_objects_with_x_and_pos_and_several_graphs(model, cloud):
    few = Data(x=values(cloud[:COUNT]), pos=cloud[:COUNT])
    extended = qn.extend(OnData(model), COUNT, layout="points", example=few)
    a, b = cloud[:200], cloud[200:]
    one, two = (extended(Data(x=values(p), pos=p)) for p in (a, b))
    batch = torch.cat([torch.zeros(200), torch.ones(300)]).long()
    shuffled = torch.randperm(500)
    data = Data(x=values(cloud)[shuffled], pos=cloud[shuffled], batch=batch[shuffled])
    together = extended(data)
    first = batch[shuffled] == 0
    close(together[first], extended(Data(x=data.x[first], pos=data.pos[first])))
    ordered = extended(Data(x=values(cloud), pos=cloud, batch=batch))
    close(ordered, torch.cat([one, two]))
    with pytest.raises(ValueError, match="one graph at a time"):
        extended(data, density=torch.ones(500))


@torch.no_grad()
def test_lists_of_clouds_of_different_sizes(model, cloud):
    extended = qn.extend(model, COUNT, layout="points", example=(values(cloud)[None, :COUNT], cloud[None, :COUNT]))
    clouds = [cloud[:100], cloud[100:400]]
    outputs = extended([values(p) for p in clouds], clouds)
    assert [tuple(y.shape) for y in outputs] == [(100, 1), (300, 1)]
    close(outputs[1], extended(values(clouds[1])[None], clouds[1][None])[0])
    with pytest.raises(ValueError, match="2, 1 clouds"):
        extended([values(p) for p in clouds], clouds[:1])


def test_gradients(model, cloud):
    x, pos = values(cloud)[None, :200].requires_grad_(), cloud[:200]
    extended = qn.extend(model, COUNT, layout="points", example=(x[:, :COUNT].detach(), pos[:COUNT]))
    extended(x, pos).square().sum().backward()
    assert bool((x.grad.abs() > 0).all())
    assert all(p.grad is not None for p in model.parameters())


def test_drawing():
    assert drawn(1000, 10).tolist() == drawn(1000, 10).tolist()
    assert len(set(drawn(1000, 100).tolist())) == 100
    w = torch.rand(50, generator=torch.Generator().manual_seed(1))
    often = torch.zeros(50)
    for seed in range(400):
        often += torch.bincount(drawn(50, 10, w, seed), minlength=50)
    torch.testing.assert_close(often / 400, 10 * w / w.sum(), rtol=0, atol=0.12)  # σ < 0.025 each
    assert torch.bincount(drawn(3, 9)).tolist() == [3, 3, 3]
    for bad in (torch.ones(49), -torch.ones(50), torch.zeros(50), torch.full((50,), float("nan"))):
        with pytest.raises(ValueError, match="density"):
            drawn(50, 10, bad)


@torch.no_grad()
def test_a_cloud_that_is_denser_elsewhere_is_thinned_by_its_volumes(model):
    """Points at √u are dense at 1; drawn with their control volumes the subset is even again, as in training."""
    g = torch.Generator().manual_seed(0)
    even, dense = torch.rand(COUNT, 2, generator=g), torch.rand(3000, 2, generator=g).sqrt()
    extended = qn.extend(model, COUNT, layout="points", example=(values(even)[None], even))
    truth = sums_of(model, *[(values(p)[None], p) for p in (torch.rand(50_000, 2, generator=g), dense)])
    volumes = qn.voronoi_weights(dense, bounds=((0, 1), (0, 1)))
    ways = {"as it is": {}, "drawn evenly": {"density": volumes}}
    errors = {way: [] for way in ways}
    for extended.seed in range(5):
        for way, options in ways.items():
            errors[way].append((extended(values(dense)[None], dense, **options) - truth).norm() / truth.norm())
    assert sum(errors["drawn evenly"]) < 0.5 * sum(errors["as it is"])


@torch.no_grad()
def test_anchored_by_control_volumes(model):
    """Σ w f over a cloud that is denser on one side is the integral: the output is that of an even cloud."""
    g = torch.Generator().manual_seed(0)
    even, dense = torch.rand(COUNT, 2, generator=g), torch.rand(3000, 2, generator=g).sqrt()
    anchored = qn.anchor(model, COUNT, layout="points", example=(values(even)[None], even))
    assert "anchored at 60 points: 2 sums anchored, 0 left" in str(anchored.anchor_report)
    truth = sums_of(model, *[(values(p)[None], p) for p in (torch.rand(50_000, 2, generator=g), dense)])
    volumes = qn.voronoi_weights(dense, bounds=((0, 1), (0, 1)))
    gap = (anchored(values(dense)[None], dense, volumes=volumes) - truth).norm() / truth.norm()
    plain = (model(values(dense)[None], dense) - truth).norm() / truth.norm()
    assert gap < 0.1 * plain
    assert anchored.model is not model


@torch.no_grad()
def test_an_operator_of_this_package_takes_its_own_weights(cloud):
    torch.manual_seed(0)
    model = Transolver(width=16, heads=2, layers=2, slices=4, norm="layer").eval()
    x = values(cloud)[None]
    anchored = qn.anchor(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))
    w = qn.voronoi_weights(cloud, bounds=((0, 1), (0, 1)))
    close(anchored(x, cloud, volumes=w), model(x, cloud, weights=w.float()))
    extended = qn.extend(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))
    y = extended(x, cloud, subset=torch.arange(COUNT))
    close(y[:, :COUNT], model(x[:, :COUNT], cloud[:COUNT]))


def test_neighbours_are_refused(cloud):
    class Nearest(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(1, 1)

        def forward(self, x, pos):
            near = torch.cdist(pos, pos).topk(3, largest=False).indices
            return self.mix(x[:, near].mean(2))

    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 1, 3, padding=1)

        def forward(self, x, pos):
            return self.conv(x.mT).mT + pos[..., :1]

    x = values(cloud)[None, :COUNT]
    for model in (Nearest(), Row()):
        with pytest.raises(CannotFollowError):
            qn.extend(model, COUNT, layout="points", example=(x, cloud[:COUNT]))


@pytest.mark.parametrize("way", [qn.extend, qn.anchor, qn.at_native])
def test_tokens_of_one_axis_may_be_a_row_or_a_cloud_and_must_be_told(model, cloud, way):
    with pytest.raises(ValueError, match=r'layout="last".*layout="points"'):
        way(model, (COUNT,), "endpoint", layout="tokens")


def test_errors(model, cloud):
    x = values(cloud)[None]
    with pytest.raises(ValueError, match="the number of points"):
        qn.extend(model, (9, 9), layout="points")
    with pytest.raises(ValueError, match="which has none"):
        qn.extend(model, COUNT, "endpoint", layout="points")
    with pytest.raises(ValueError, match="must have 60 points"):
        qn.extend(model, COUNT, layout="points", example=(x, cloud))
    with pytest.raises(ValueError, match="along 2 axes"):
        point_axes(torch.zeros(60, 60), 60)
    with pytest.raises(ValueError, match="pass example="):
        qn.extend(OnData(model), COUNT, layout="points")
    extended = qn.extend(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))
    with pytest.raises(ValueError, match="must hold 60 indices of the 500"):
        extended(x, cloud, subset=[0, 1])
    with pytest.raises(ValueError, match="different numbers of points"):
        extended(x, cloud[:400])
    with pytest.raises(ValueError, match="as in the example"):
        extended(x[0], cloud)
    with pytest.raises(ValueError, match="volumes"):
        qn.anchor(model, COUNT, layout="points", example=(x[:, :COUNT], cloud[:COUNT]))(x, cloud, volumes=[1.0])


@torch.no_grad()
def test_at_native_calls_a_model_as_it_is_called(model, cloud):
    home, new = cloud[:200], cloud[100:400]
    few = values(home)[None]
    native = qn.at_native(model, home)
    expected = native(values(new)[None], new)
    shared = torch.arange(100)
    close(expected[:, shared], native(values(new)[None], pos=new)[:, shared])
    close(native(few, home), model(few, home))  # no coordinates= is forced on the model
    data = qn.at_native(OnData(model), home)
    close(data(Data(x=values(new), pos=new)), expected[0])
    channels = qn.at_native(model, home, coordinates=1)
    close(channels(torch.cat([values(new), new], -1)[None]), expected)
    own = torch.stack([new, new.flip(0)])  # points of their own in each sample
    y = native(torch.cat([values(new)[None], values(new.flip(0))[None]]), own)
    close(y[:1], expected)
    close(y[1:], expected.flip(1))
    with pytest.raises(ValueError, match="found no coordinates"):
        native(values(new)[None])
    with pytest.raises(ValueError, match="channels from there on"):
        channels(values(new)[None])
