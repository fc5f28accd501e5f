"""Adapted models run captured graphs: the same numbers as the steered run, whatever is asked of them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.graphs.capture import Obstacle
from quadnorm.operators import FNO
from tests.adapt.models import Attention, Calls, ClassicFNO, field

WAYS = ("anchor", "extend")


def adapted_by(way, model, n=9, d=2, **options):
    adapted = getattr(qn, way)(model, (n,) * d, "endpoint", **({"force": True} if way == "anchor" else {}), **options)
    assert isinstance(adapted, Adapted)
    return adapted


def steered(adapted, x, **options):
    return adapted.run_steered((x,), options, tuple(x.shape[2:]))


def graphs(adapted):
    return [ready.graph for kind in adapted._graphs.kinds.values() for ready in kind.ready]


def gap(a, b):
    return float((a - b).detach().norm() / b.detach().norm())


class Scaled(nn.Module):
    """A mean over samples, times numbers that are kept in different ways."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv2d(1, 4, 1)
        self.factor = 1.0
        self.table = torch.ones(4, 1, 1)
        self.register_buffer("kept", torch.ones(4, 1, 1))

    def forward(self, x):
        v = self.lift(x)
        return self.factor * self.kept * self.table * (v - v.mean((-2, -1), keepdim=True)).square()


class Branch(nn.Module):
    """Does something else for large batches."""

    def __init__(self, plain_number):
        super().__init__()
        self.plain_number = plain_number

    def forward(self, x):
        b = int(x.shape[0]) if self.plain_number else x.shape[0]
        m = x.mean((-2, -1), keepdim=True)
        return x - m if b <= 8 else x + m


MODELS = {
    "classic": lambda: ClassicFNO(layers=1),
    "padded": lambda: ClassicFNO(pad=3, layers=1),
    "sdpa": lambda: Attention("sdpa"),
    "galerkin": lambda: Attention("galerkin"),
    "mean": lambda: Calls(lambda v: v - v.mean((-2, -1), keepdim=True)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_the_steered_run_for_any_batch_with_gradients(name, way):
    model = MODELS[name]()
    adapted = adapted_by(way, model)
    x = field(15, 15, batch=3).requires_grad_()
    inner = list(adapted.model.parameters())
    results = []
    for run in (adapted, lambda t: steered(adapted, t)):
        y = run(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), (x, *inner))))
    assert all(gap(a, b) < 1e-5 for a, b in zip(*results, strict=True))
    (graph,) = graphs(adapted)
    for batch in (1, 2, 7):
        x = field(15, 15, batch=batch)
        assert gap(adapted(x), steered(adapted, x)) < 1e-5
    assert graphs(adapted) == [graph]
    assert adapted.obstacles == {}


@pytest.mark.parametrize("way", WAYS)
def test_a_warm_call_runs_no_mode_and_none_of_the_models_code(way, monkeypatch):
    model = ClassicFNO(layers=1)
    adapted = adapted_by(way, model)
    x = field(15, 15, batch=2)
    before = adapted(x)
    monkeypatch.setattr(ClassicFNO, "forward", None)
    monkeypatch.setattr("quadnorm.adapt.watching.watch.Live.__enter__", None)
    assert torch.equal(adapted(x), before)


def test_attention_stays_one_call():
    adapted = adapted_by("extend", Attention("sdpa"))
    adapted(field(15, 15))
    calls = [n.target for n in graphs(adapted)[0].module.graph.nodes if n.op == "call_function"]
    # The native run's last attention is of no use: its keys and values are kept.
    assert calls.count(torch.ops.aten.scaled_dot_product_attention.default) == 1
    assert torch.ops.aten.softmax.int not in calls


@pytest.mark.parametrize("plain_number", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_branch_on_the_batch_is_never_frozen(way, plain_number):
    adapted = adapted_by(way, Branch(plain_number), layout="first")
    for batch in (2, 3, 5, 10, 12, 4, 9):
        x = field(15, 15, batch=batch)
        assert gap(adapted(x), steered(adapted, x)) < 1e-5, batch


class AtTime(nn.Module):
    """Fields and a time for each: two arguments that share a batch, which meet in one tensor."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv2d(2, 4, 1)

    def forward(self, x, t):
        v = self.lift(torch.cat([x, t.view(-1, 1, 1, 1).expand_as(x)], 1))
        return v - v.mean((-2, -1), keepdim=True)


@pytest.mark.parametrize("way", WAYS)
def test_arguments_that_share_a_batch_share_its_symbol(way):
    adapted = adapted_by(way, AtTime(), example=(field(9, 9, batch=2), torch.rand(2)))
    for x, t in ((2, 2), (5, 5), (3, 1), (1, 1)):
        given = field(15, 15, batch=x), torch.rand(t)
        assert gap(adapted(*given), adapted.run_steered(given, {}, (15, 15))) < 1e-5
    assert adapted.obstacles == {}


def test_how_the_batch_is_treated_shows_in_the_graph():
    symbolic, merged = (adapted_by("extend", Branch(plain), layout="first") for plain in (False, True))
    for adapted in (symbolic, merged):
        adapted(field(15, 15, batch=3))
    assert graphs(symbolic)[0].exact
    assert not graphs(symbolic)[0].conditions(9)
    assert not graphs(merged)[0].exact  # each new batch is compared with the steered run


@pytest.mark.parametrize("way", WAYS)
def test_changes_of_the_model_reach_its_graphs(way):
    """Parameters, buffers and attributes, exchanged or written into, by whatever hand."""
    model = Scaled()
    adapted = adapted_by(way, model)
    inner, x = adapted.model, field(15, 15)
    changes = [
        lambda: inner.lift.weight.data.mul_(2),
        lambda: setattr(inner.lift, "weight", nn.Parameter(torch.randn(4, 1, 1, 1))),
        lambda: setattr(inner, "kept", torch.full((4, 1, 1), 3.0)),
        lambda: inner.kept.mul_(0.5),
        lambda: setattr(inner, "factor", 0.25),
        lambda: inner.table.mul_(2),
        lambda: setattr(inner, "lift", nn.Conv2d(1, 4, 1)),
        lambda: inner.load_state_dict(Scaled().state_dict()),
        lambda: adapted.load_state_dict(Scaled().state_dict()),
    ]
    for change in changes:
        before = adapted(x)
        change()
        after = adapted(x)
        assert gap(after, before) > 1e-3
        assert gap(after, steered(adapted, x)) < 1e-6


def test_a_cached_grid_is_no_state():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.size, self.head = None, None, nn.Conv2d(2, 1, 1)

        def forward(self, x):
            if self.size != x.shape[-2:]:
                self.size = x.shape[-2:]
                self.places = torch.linspace(0, 1, x.shape[-1]).expand(1, 1, *x.shape[-2:])
            v = torch.cat([x, self.places.expand(x.shape[0], -1, -1, -1)], 1)
            return self.head(v - v.mean((-2, -1), keepdim=True))

    adapted = adapted_by("extend", Caching())
    x = field(15, 15, batch=2)
    assert gap(adapted(x), steered(adapted, x)) < 1e-6
    adapted(field(9, 9, batch=2))
    adapted(x)
    assert len(graphs(adapted)) == 1
    assert not any(isinstance(v, torch.Tensor) and type(v) is not torch.Tensor for v in vars(adapted.model).values())


class Uncapturable(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what, self.history, self.last = what, [], None
        self.lift, self.norm = nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x):
        v = self.lift(x)
        v = v - v.mean((-2, -1), keepdim=True)
        if self.what == "numpy":
            v = v * float(v.detach().numpy().max())
        elif self.what == "branch" and v.sum() > 1e6:
            v = -v
        elif self.what == "list":
            self.history.append(1)
        elif self.what == "attribute":
            self.last = v.detach()
        elif self.what == "running":
            v = self.norm(v)
        elif self.what == "derivative":
            v = Straight.apply(v)
        return v


class Straight(torch.autograd.Function):
    """Rounds, with the derivative of the identity."""

    @staticmethod
    def forward(ctx, x):
        return (8 * x).round() / 8

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize(
    ("what", "obstacle"),
    [
        ("numpy", Obstacle.VALUES),
        ("branch", Obstacle.VALUES),
        ("list", Obstacle.STATE),
        ("attribute", Obstacle.STATE),
        ("running", Obstacle.STATISTICS),
        ("hook", Obstacle.HOOKS),
        ("derivative", Obstacle.DERIVATIVE),
    ],
)
def test_what_cannot_be_captured_is_steered_and_said_once(what, obstacle, caplog):
    model = Uncapturable(what)
    adapted = adapted_by("extend", model, layout="first")
    calls = []
    if what == "hook":
        model.lift.register_forward_hook(lambda *_: calls.append(1))
    x = field(15, 15, batch=2).requires_grad_()
    adapted.train()
    for _ in range(2):
        y = adapted(x)
        (ours,) = torch.autograd.grad(y.sum(), x)
        (theirs,) = torch.autograd.grad(steered(adapted, x).sum(), x)
        assert torch.equal(ours, theirs)
    assert list(adapted.obstacles) == [obstacle]
    assert sum(obstacle.value in r.message for r in caplog.records if r.name == "quadnorm") == 1
    assert obstacle.value in str(adapted.extend_report)
    calls.clear()
    adapted(x)
    assert len(calls) == (2 if what == "hook" else 0)  # native run and new grid


@pytest.mark.parametrize("way", WAYS)
def test_names_in_the_state_are_the_models(way):
    model, other = ClassicFNO(layers=1), ClassicFNO(layers=1)
    adapted = adapted_by(way, model)
    assert list(adapted.state_dict()) == list(model.state_dict())
    adapted.load_state_dict(other.state_dict())
    outer = nn.ModuleDict({"net": adapted})
    assert list(outer.state_dict()) == [f"net.{name}" for name in model.state_dict()]
    outer.load_state_dict({f"net.{name}": t for name, t in other.state_dict().items()})
    outer.load_state_dict({f"net.model.{name}": t for name, t in other.state_dict().items()})  # as saved before
    x = field(9, 9)
    assert torch.equal(adapted(x), other(x))
    with pytest.raises(RuntimeError, match="Missing key"):
        adapted.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        adapted.load_state_dict({**other.state_dict(), "nothing": torch.ones(1)})


@pytest.mark.parametrize("way", WAYS)
def test_copies_and_pickles_run_alike(way):
    adapted = adapted_by(way, ClassicFNO(layers=1))
    x = field(15, 15)
    before = adapted(x)
    for twin in (copy.deepcopy(adapted), pickle.loads(pickle.dumps(adapted))):
        assert torch.equal(twin(x), before)
        next(twin.parameters()).data.zero_()
    assert torch.equal(adapted(x), before)


@pytest.mark.parametrize("way", WAYS)
def test_other_precisions_have_graphs_of_their_own(way):
    adapted = adapted_by(way, Attention("softmax").double())
    x = field(15, 15, batch=2, dtype=torch.float64)
    assert gap(adapted(x), steered(adapted, x)) < 1e-12
    half = adapted_by(way, Attention("galerkin"))
    x = field(15, 15, batch=2)
    single = half(x)
    with torch.autocast("cpu", torch.bfloat16):
        low, reference = half(x), steered(half, x)
    assert 1e-4 < gap(low.float(), single) < 5e-2
    assert gap(low.float(), reference.float()) < 1e-2
    assert torch.equal(half(x), single)


@pytest.mark.parametrize("whole", [False, True])
def test_our_operators_in_half_precision_are_graphs(whole):
    """Their spectral weights stay in single precision, and have derivatives of half precision all the same."""
    model = FNO(width=4, modes=3, layers=1)
    x = field(15, 15, batch=2)
    single = adapted_by("extend", model)(x)
    if whole:
        low = adapted_by("extend", model.to(torch.bfloat16))
        y = low(x.bfloat16())
    else:
        low = adapted_by("extend", model)
        with torch.autocast("cpu", torch.bfloat16):
            y = low(x)
    assert not low.obstacles
    assert 1e-4 < gap(y.float(), single) < 5e-2
    y.float().square().mean().backward()
    assert all(p.grad.abs().sum() > 0 for p in low.parameters())


def test_training_and_evaluation_have_graphs_of_their_own():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.drop = nn.Conv2d(1, 8, 1), nn.Dropout(0.5)

        def forward(self, x):
            v = self.drop(self.lift(x))
            return v - v.mean((-2, -1), keepdim=True)

    adapted = adapted_by("anchor", Dropping())
    x = field(15, 15)
    adapted.eval()
    assert torch.equal(adapted(x), adapted(x))
    adapted.train()
    assert not torch.equal(adapted(x), adapted(x))
    results = []
    for run in (adapted, lambda t: steered(adapted, t)):
        torch.manual_seed(3)
        results.append(run(x))
    assert gap(*results) < 1e-6
    adapted.model.drop.eval()  # a part of it
    assert torch.equal(adapted(x), adapted(x))


def test_nested_outputs_and_further_arguments():
    class Many(nn.Module):
        def forward(self, x, scale=1.0, *, shift=None):
            m = x.mean((-2, -1), keepdim=True)
            return {"y": scale * (x - m), "parts": (m, 3, [x + (0 if shift is None else shift)])}

    adapted = adapted_by("extend", Many(), layout="first", example=field(9, 9))
    x = field(15, 15, batch=2)
    for scale in (1.0, 2.0):
        y = adapted(x, scale, shift=torch.ones(2, 1, 1, 1))
        assert torch.allclose(y["y"], scale * (x - y["parts"][0]), atol=1e-6)
        assert y["parts"][1] == 3
        assert torch.equal(y["parts"][2][0], x + 1)
    assert torch.equal(adapted(x)["parts"][2][0], x)


def test_one_model_from_many_threads_on_many_grids():
    """8 threads, 5 grids, fresh and warm, beside adapting and the plain model: the bits of a serial run."""
    model = ClassicFNO(layers=1).eval()
    grids = (11, 13, 15, 17, 21)
    inputs = [field(n, n, batch=2) for n in grids]
    with torch.no_grad():
        serial = [adapted_by("extend", model)(x) for x in inputs]
        anchored = adapted_by("anchor", model)(inputs[0])
        native = model(field(9, 9))
    shared, errors = adapted_by("extend", model), []

    def call(k):
        with torch.no_grad():
            for _ in range(2):
                if not torch.equal(shared(inputs[k % 5]), serial[k % 5]):
                    errors.append(f"grid {grids[k % 5]}")
                if not torch.equal(model(field(9, 9)), native):
                    errors.append("plain")
            if k % 8 == 3 and not torch.equal(adapted_by("anchor", model)(inputs[0]), anchored):
                errors.append("anchored")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(16)))
    assert not errors


def test_graphs_that_are_in_use_are_kept(monkeypatch):
    monkeypatch.setattr("quadnorm.adapt.graphs.kinds.MAX_KINDS", 2)
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    adapted = qn.extend(model, 9, "endpoint")
    for n in (11, 13, 11, 15):
        adapted(torch.randn(2, 1, n))
    assert [kind[1][0] for kind in adapted._graphs.kinds] == [(11,), (15,)]


def test_wide_hidden_fields_are_made_strip_by_strip():
    """Same numbers and derivatives, and no tensor that is as wide as the hidden field on the whole grid."""
    torch.manual_seed(0)
    model = FNO(width=4, modes=3, layers=1)
    adapted = qn.extend(model, (9, 9), "endpoint")
    x = torch.randn(3, 1, 49, 49, requires_grad=True)
    expected = adapted.run_steered((x,), {}, (49, 49))
    y = adapted(x)
    (ready,) = next(iter(adapted._graphs.kinds.values())).ready
    hidden = [n for n in ready.graph.module.graph.nodes if n.target is torch.ops.aten.gelu.default]
    sizes = []

    class Sizes(torch.fx.Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            if n in hidden:
                sizes.append(result.shape[-1] * result.shape[1])
            return result

    state = [home[name] for home, name in ready.slots]
    Sizes(ready.graph.module).run(*state, x)
    wide = model.head.first.weight.shape[0]
    assert max(sizes) == max(wide * 1024, 4 * 49 * 49)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)
    direction = torch.randn_like(y)
    leaves = [x, *model.parameters()]
    ours, theirs = (torch.autograd.grad(out, leaves, direction) for out in (y, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
