"""Checkpoint files: every dtype, damage, strangers, and code that must not run."""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from quadnorm.training import TrainConfig, load_model, train
from quadnorm.training.atomic import claimed, write_atomic
from quadnorm.training.checkpoint import read_checkpoint, write_checkpoint

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
    found, info = read_checkpoint(tmp_path / "c")
    assert info == {"a": [1, None, 0.1]}
    assert found.keys() == tensors.keys()
    for name, t in tensors.items():
        assert found[name].dtype == t.dtype
        assert torch.equal(found[name], t.resolve_conj())


def test_damage_is_noticed(tmp_path: Path) -> None:
    """Cut short anywhere, or with any one byte changed, the file is refused or is not what it was by a ValueError."""
    path = tmp_path / "c"
    write_checkpoint(path, {"w": torch.randn(16)}, {"config": {"seed": 1}})
    whole = path.read_bytes()
    for length in (0, 1, 8, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a checkpoint, or is damaged"):
            read_checkpoint(path)
    for at in range(len(whole) - 64, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match="is damaged: its tensors are not the ones that were written"):
            read_checkpoint(path)


def test_a_pickle_in_its_place_is_not_executed(tiny: Tiny, tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    run = tmp_path / "run"
    train(tiny(), run, progress=False)
    for dump in (lambda p: p.write_bytes(pickle.dumps(Attack())), lambda p: torch.save({"model": Attack()}, p)):
        dump(run / "best.safetensors")
        dump(run / "last.safetensors")
        for attempt in (lambda: load_model(run), lambda: train(tiny(), run, progress=False)):
            with pytest.raises(ValueError, match="is not a checkpoint, or is damaged"):
                attempt()
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
    save_file({"w": torch.ones(2)}, tmp_path / "plain")
    with pytest.raises(ValueError, match="holds tensors but is not a checkpoint of quadnorm"):
        read_checkpoint(tmp_path / "plain")
    write_checkpoint(tmp_path / "c", {"w": torch.ones(2)}, {})
    for text, line in (
        ("{", "its metadata are not JSON"),
        ("[]", "its metadata are incomplete"),
        (
            json.dumps({"format": "quadnorm-checkpoint", "version": 99, "complex": [], "digest": "", "info": {}}),
            "reads",
        ),
        (
            json.dumps({"format": "quadnorm-checkpoint", "version": 1, "complex": ["w"], "digest": "", "info": {}}),
            "damaged",
        ),
    ):
        save_file(load_file(tmp_path / "c"), tmp_path / "d", metadata={"quadnorm": text})
        with pytest.raises(ValueError, match=line):
            read_checkpoint(tmp_path / "d")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        read_checkpoint(tmp_path / "missing")


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old", "the file")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{function}", full)
    with pytest.raises(OSError, match=r"cannot write the file .*: No space left on device; free some space") as caught:
        write_atomic(path, "new", "the file")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_has_one_trainer_at_a_time(tmp_path: Path) -> None:
    (tmp_path / ".last.safetensors.part").write_bytes(b"left behind by a kill")
    with claimed(tmp_path):
        assert [p.name for p in tmp_path.iterdir()] == [".lock"]
        with pytest.raises(OSError, match="another process is training in"), claimed(tmp_path):
            pass
    with claimed(tmp_path):
        pass
