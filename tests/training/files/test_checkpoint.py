"""Checkpoint files: every dtype, damage, strangers, and code that must not run."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from quadnorm._files import DamagedError, content_hash
from quadnorm.training import TrainConfig, load_model, train
from quadnorm.training.files.checkpoint import read_checkpoint, write_checkpoint
from tests.training.tiny_runs import assert_same_run

Tiny = Callable[..., TrainConfig]


def test_every_tensor_comes_back_as_it_was(tmp_path: Path) -> None:
    base = torch.randn(4, 4)
    tensors = {
        "real": torch.randn(3, dtype=torch.float64),
        "complex": torch.randn(2, 3, dtype=torch.complex64),
        "conjugate": torch.randn(2, dtype=torch.complex128).conj(),
        "half": torch.randn(3).bfloat16(),
        "bytes": torch.arange(7, dtype=torch.uint8),
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 2),
        "view": base[1:, ::2],
        "shared": base,
    }
    write_checkpoint(tmp_path / "c", tensors, {"a": [1, None, 0.1]})
    read, info = read_checkpoint(tmp_path / "c")
    assert info == {"a": [1, None, 0.1]}
    assert read.keys() == tensors.keys()
    for name, t in tensors.items():
        assert read[name].dtype == t.dtype
        assert torch.equal(read[name], t.resolve_conj())


def test_damage_is_noticed(tmp_path: Path) -> None:
    """Cut short anywhere, or with any one bit changed, header and metadata included, the file is refused by name."""
    path = tmp_path / "c"
    write_checkpoint(path, {"w": torch.randn(16)}, {"config": {"seed": 1, "rate": 1e-05}, "state": {"epoch": 3}})
    whole = path.read_bytes()
    for length in (0, 1, 8, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match="is damaged"):
            read_checkpoint(path)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=str(path)):
            read_checkpoint(path)


def test_other_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match=r"theirs.pt is a PyTorch file \(\.pt\), not a checkpoint of quadnorm"):
        load_model(tmp_path / "theirs.pt")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="not a checkpoint of quadnorm, or is cut short"):
        load_model(tmp_path / "text")
    with pytest.raises(OSError, match=r"cannot read .*: Is a directory"):
        read_checkpoint(tmp_path)


def test_a_damaged_checkpoint_is_set_aside_and_made_again(tiny: Tiny, tmp_path: Path, caplog: Any) -> None:
    train(tiny(), tmp_path / "whole", progress=False)
    train(tiny("epochs=2"), tmp_path / "run", progress=False)
    path = tmp_path / "run" / "last.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    train(tiny(), tmp_path / "run", progress=False)
    assert "its checksum does not agree with its contents; set aside as last.safetensors.damaged-" in caplog.text
    assert [p.read_bytes() for p in (tmp_path / "run").glob("*.damaged-*")] == [bytes(data)]
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_pickle_in_its_place_is_not_executed(tiny: Tiny, tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    run = tmp_path / "run"
    train(tiny(), run, progress=False)
    for dump in (lambda p: p.write_bytes(pickle.dumps(Attack())), lambda p: torch.save({"model": Attack()}, p)):
        dump(run / "best.safetensors")
        dump(run / "last.safetensors")
        with pytest.raises(ValueError, match="not a checkpoint of quadnorm"):
            load_model(run)
        with suppress(ValueError):  # what is damaged is set aside, a file of another kind is left alone
            train(tiny(), run, progress=False)
    assert not (tmp_path / "executed").exists()


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], None]) -> None:
    """The checkpoint with its contents changed and everything around them intact, as an attacker would do it."""
    tensors, info = read_checkpoint(path)
    change(info, tensors)
    write_checkpoint(path, tensors, info)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda i, t: i["config"].update(epochs=-1),
            "the config in .*: epochs: input should be greater than or equal to 1",
        ),
        (lambda i, t: i["config"].update(code="x"), "the config in .*: unknown key 'code'"),
        (lambda i, t: i.pop("config"), "the config in .*: expected sections .* got NoneType"),
        (lambda i, t: i["config"]["operator"]["params"].update(norm="os.system"), "unknown norm 'os.system'"),
        (
            lambda i, t: i["config"]["operator"]["params"].update(width=5),
            "does not fit the model .* is of another shape",
        ),
        (lambda i, t: i["config"]["operator"]["params"].update(layers=2), "does not fit the model .* is missing"),
        (lambda i, t: t.pop("model.x_mean"), "1 tensors differ, the first, 'x_mean', is missing"),
        (lambda i, t: t.update({"model.extra": torch.ones(1)}), "the first, 'extra', is unknown"),
        (lambda i, t: i.pop("state"), "is damaged: its state is incomplete"),
        (lambda i, t: i["state"].update(spoilt=1), "is damaged: its state is incomplete"),
        (lambda i, t: i["sizes"].pop("dim"), "is damaged: its state is incomplete"),
    ],
)
def test_contents_that_do_not_fit(tiny: Tiny, tmp_path: Path, change: Callable[..., None], line: str) -> None:
    train(tiny(), tmp_path, progress=False)
    rewritten(tmp_path / "best.safetensors", change)
    with pytest.raises(ValueError, match=line) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda i, t: t.update({"random.torch": torch.ones(3)}), "its random state cannot be set"),
        (lambda i, t: t.pop("random.torch"), "its random state cannot be set"),
        (lambda i, t: t.update({"optimiser.operator.lift.bias.exp_avg": torch.ones(1, 1)}), "have another shape"),
        (lambda i, t: [t.pop(k) for k in list(t) if k.startswith("optimiser")], "holds weights only"),
    ],
)
def test_a_state_that_cannot_be_resumed(tiny: Tiny, tmp_path: Path, change: Callable[..., None], line: str) -> None:
    train(tiny(), tmp_path, progress=False)
    rewritten(tmp_path / "last.safetensors", lambda i, t: (i["state"].update(ended=None), change(i, t)))  # type: ignore[func-returns-value]
    with pytest.raises(ValueError, match=line):
        train(tiny(), tmp_path, progress=False)


def test_other_safetensors_files(tmp_path: Path) -> None:
    blank = "0" * 40
    save_file({"w": torch.ones(2)}, tmp_path / "plain")
    with pytest.raises(ValueError, match="holds tensors but is not a checkpoint of quadnorm"):
        read_checkpoint(tmp_path / "plain")
    write_checkpoint(tmp_path / "c", {"w": torch.ones(2)}, {})
    for text, line in (
        ("{", "holds tensors but is not a checkpoint"),
        ('{"digest": "' + blank + '"', "its metadata are not JSON"),
        ('{"digest": "' + blank + '"}', "its metadata are incomplete"),
        (
            json.dumps({"digest": blank, "format": "quadnorm-checkpoint", "version": 99, "complex": [], "info": {}}),
            "reads",
        ),
        (
            json.dumps({"digest": blank, "format": "quadnorm-checkpoint", "version": 2, "complex": ["v"], "info": {}}),
            "should hold complex numbers",
        ),
        (
            json.dumps({"format": "quadnorm-checkpoint", "version": 1, "complex": [], "digest": "", "info": {}}),
            "written by a version before",
        ),
    ):
        save_file(load_file(tmp_path / "c"), tmp_path / "d", metadata={"quadnorm": text})
        data = (tmp_path / "d").read_bytes()
        (tmp_path / "d").write_bytes(data.replace(blank.encode(), content_hash(data).encode(), 1))
        with pytest.raises(ValueError, match=line):
            read_checkpoint(tmp_path / "d")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        read_checkpoint(tmp_path / "missing")
