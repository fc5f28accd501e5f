"""Norms swapped for training."""

import pytest
import torch
from torch import nn

from quadnorm import Grid
from quadnorm.adapt import convert
from quadnorm.norms import BlendQuadNorm, QuadNorm, make_norm
from quadnorm.operators import FNO


def small():
    return nn.Sequential(
        nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4, eps=1e-3), nn.InstanceNorm2d(4), nn.LayerNorm((4, 9, 9)), nn.LayerNorm(9)
    )


def test_what_is_changed_and_what_is_not():
    model = small()
    nn.init.normal_(model[1].weight)
    new, report = convert(model, "quad")
    assert [type(m).__name__ for m in new] == ["Conv2d", "QuadNorm", "QuadNorm", "QuadNorm", "LayerNorm"]
    assert [type(m).__name__ for m in model] == ["Conv2d", "GroupNorm", "InstanceNorm2d", "LayerNorm", "LayerNorm"]
    assert [e.name for e in report.changed] == ["1", "2", "3"]
    assert "changes what the layer means" in report["4"].why
    assert "converted to quad: 3 norms changed, 1 left" in str(report)
    assert torch.equal(new[1].weight, model[1].weight)
    assert new[1].eps == 1e-3
    assert new[2].weight is None  # no affine before, none now
    for n in (9, 12):
        x = torch.randn(1, 4, n, n)
        assert torch.isfinite(new[3](x)).all()


def test_a_quad_norm_with_counting_weights_is_the_norm_it_replaced():
    """Converted to the same measure and grouping, nothing but the class changes."""
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.GroupNorm(1, 4)).double()
    for p in model.parameters():
        nn.init.normal_(p)
    new, _ = convert(model, "quad:group:2", measure="counting")
    x = torch.randn(2, 4, 9, 9, dtype=torch.float64)
    assert torch.allclose(new[0](x), model[0](x), atol=1e-12)
    new, _ = convert(model, "layer")
    assert torch.allclose(new[1](x), model[1](x), atol=1e-12)


def test_the_reduction_pattern_is_that_of_the_layer_replaced():
    """With counting weights nothing changes at all: same groups of channels, same statistics."""
    model = nn.Sequential(
        nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True), nn.LayerNorm((8, 9, 9)), nn.GroupNorm(8, 8)
    ).double()
    x = torch.randn(2, 8, 9, 9, dtype=torch.float64)
    for to in ("quad", QuadNorm, "quad:counting"):
        new, report = convert(model, to, measure="counting")
        assert [m.mode for m in new] == ["group", "instance", "layer", "instance"]
        assert new[0].num_groups == 2
        for old, norm in zip(model, new, strict=True):
            torch.testing.assert_close(norm(x), old(x), rtol=0, atol=1e-12)
        assert "QuadNorm in group mode of 2 groups" in report["0"].why
        assert "QuadNorm in instance mode" in report["1"].why
    ours, _ = convert(FNO(width=8, modes=3, layers=2, norm="instance"), "quad")
    assert [block.norm.mode for block in ours.blocks] == ["instance"] * 2


def test_a_named_mode_is_obeyed_and_the_change_is_said():
    new, report = convert(nn.Sequential(nn.InstanceNorm2d(4), nn.GroupNorm(2, 4)), "quad:layer")
    assert [m.mode for m in new] == ["layer", "layer"]
    assert "in layer mode (the old norm took its means as instance mode does)" in report["0"].why
    assert "as group of 2 mode does" in report["1"].why
    _, report = convert(nn.Sequential(nn.InstanceNorm2d(4)), "blend")
    assert "BlendQuadNorm in layer mode (the old norm took its means as instance mode does)" in report["0"].why


def test_measures_and_classes():
    new, _ = convert(nn.GroupNorm(1, 4), QuadNorm, measure="midpoint")
    assert new.measure == Grid("midpoint")
    with pytest.raises(ValueError, match="did you mean 'blend'"):
        convert(small(), "blendd")


def test_shared_modules_hooks_mode_and_dtype():
    norm = nn.GroupNorm(1, 4)
    model = nn.ModuleDict({"a": norm, "b": nn.Sequential(norm)}).double().eval()
    calls = []
    norm.register_forward_hook(lambda *_: calls.append(1))
    new, report = convert(model)
    assert new["a"] is new["b"][0]
    assert isinstance(new["a"], BlendQuadNorm)
    assert not new["a"].training
    assert new["a"].weight.dtype == torch.float64
    new["a"](torch.randn(1, 4, 5, 5, dtype=torch.float64))
    assert calls == [1]
    assert "the same module as b.0" in report["a"].why


def test_in_place_keeps_the_parameters_for_the_optimizer():
    model = small()
    held = model[1].weight
    new, report = convert(model, "quad", inplace=True)
    assert new is model
    assert model[1].weight is held
    with torch.no_grad():
        model[1].weight.fill_(3.0)
    back = report.undo(model)
    assert back is model
    assert type(model[1]) is nn.GroupNorm
    assert model[1].weight.tolist() == [3.0] * 4


def test_undo_restores_the_function():
    model = small()[:4].double()
    nn.init.normal_(model[3].weight)
    x = torch.randn(2, 1, 9, 9, dtype=torch.float64)
    expected = model(x)
    new, report = convert(model, "quad:instance")
    assert not torch.allclose(new(x), expected)
    assert "their means over space were kept" in report["3"].why
    back = report.undo(new)
    assert torch.allclose(back[:3](x), model[:3](x), atol=1e-12)
    assert type(back[3]) is nn.LayerNorm
    single, report = convert(nn.GroupNorm(1, 4), "quad")
    assert type(report.undo(single)) is nn.GroupNorm
    with pytest.raises(ValueError, match="not the QuadNorm of this conversion"):
        convert(model, "quad")[1].undo(small()[:4].double())


def test_tokens_become_spatial_norms_only_when_asked():
    model = nn.Sequential(nn.Linear(2, 8), nn.LayerNorm(8))
    new, report = convert(model, "quad", grid=(5, 4))
    assert "means something else" in report["1"].why
    x = torch.randn(3, 20, 8)
    grid = x.transpose(1, 2).reshape(3, 8, 5, 4)
    expected = make_norm("quad", 8)(grid).flatten(2).transpose(1, 2)
    assert torch.allclose(new[1](x), expected, atol=1e-5)


def test_our_operators():
    new, report = convert(FNO(width=4, modes=3, layers=2), "quad:instance")
    assert all(block.norm.mode == "instance" for block in new.blocks)
    assert new(torch.randn(1, 1, 9, 9)).shape == (1, 1, 9, 9)
    assert len(report.changed) == 2


def test_nothing_to_convert():
    with pytest.raises(ValueError, match="found no norm"):
        convert(nn.Conv2d(1, 1, 1))
    _, report = convert(nn.Sequential(nn.BatchNorm2d(3), nn.GroupNorm(1, 3)))
    assert "over the batch" in report["0"].why
