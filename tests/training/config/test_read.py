"""Configs from files and overrides, with errors of one line each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quadnorm.training import read_config, write_config


def test_yaml_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("problem: {name: poisson, seed: 4}\nresolutions:\n  train: 17\noptimiser: {lr: 1e-3}\n")
    config = read_config(
        file, ["operator.params.norm=quad:instance", "operator.params.width=16", "resolutions.test=[17, [33, 65]]"]
    )
    assert config.problem.seed == 4
    assert config.resolutions.train == (17,)
    assert config.resolutions.test == (17, (33, 65))
    assert config.lr == 1e-3
    assert config.operator.params == {"norm": "quad:instance", "width": 16}


def test_overrides_leave_their_source_alone() -> None:
    data = {"operator": {"params": {"width": 8}}}
    assert read_config(data, ["operator.params.width=9"]).operator.params == {"width": 9}
    assert data == {"operator": {"params": {"width": 8}}}


values = st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
grids = st.integers(2, 500) | st.tuples(st.integers(2, 9), st.integers(2, 9))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.none() | st.floats(1e-12, 1e3),
    st.dictionaries(st.text("abcyn", min_size=1, max_size=3), values | st.sampled_from(["1e5", "no", "null", "3"])),
    st.lists(grids, min_size=1, max_size=3, unique=True),
)
def test_a_written_config_reads_back_equal(
    tmp_path: Path, lr: float | None, params: dict[str, Any], train: list[Any]
) -> None:
    config = read_config({"optimiser": {"lr": lr}, "operator": {"params": params}, "resolutions": {"train": train}})
    assert config.operator.params == params
    (tmp_path / "config.yaml").write_text(write_config(config), encoding="utf-8")
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["epocs=3"], "config: unknown key 'epocs'; did you mean 'epochs'? Known: batch, "),
        (
            ["optimiser.learning_rate=1"],
            "config: unknown key 'learning_rate' in 'optimiser'; Known: betas, clip, eps, lr, weight_decay",
        ),
        (
            ["operator.nmae=fno"],
            "config: unknown key 'nmae' in 'operator'; did you mean 'name'? Known: name, params; its own parameters go",
        ),
        (
            ["operator.name=fnoo"],
            "config: operator.name: unknown operator 'fnoo'; did you mean 'fno'? Known: fno, galerkin, "
            "neuralop-fno, physicsnemo-fno, resnet, transolver",
        ),
        (["lr=1e-3"], "config: unknown key 'lr'; write optimiser.lr=0.001"),
        (["placement=cell"], "config: unknown key 'placement'; write problem.params.placement=cell"),
        (["norm=quad"], "config: unknown key 'norm'; write operator.params.norm=quad"),
        (["operator.width=8"], "config: unknown key 'width' in 'operator'; write operator.params.width=8"),
        (["problem=poisson"], "config: problem: expected keys with values, got 'poisson'; write problem.name=poisson"),
        (["operator.name=my.py"], "config: operator.name: my.py: expected FILE.py:NAME, the class or function that"),
        (["optimiser.lr=-1"], "config: optimiser.lr: input should be greater than 0, got -1"),
        (["optimiser.lr=.nan"], "config: optimiser.lr: input should be a finite number, got nan"),
        (["resolutions.train=[33, 33]"], "config: resolutions: train names a grid twice: [33, 33]"),
        (["resolutions.train=[]"], "config: resolutions: train is empty; give at least one grid, such as 33"),
        (["resolutions.per_epoch=2"], "config: resolutions: per_epoch is 2, but there are only 1 training grids"),
        (
            ["samples.val_from=0"],
            "config: samples: val takes samples 0..99 and test takes 0..199; the splits must not overlap",
        ),
        (["samples.val=0"], "config: samples.val: input should be greater than or equal to 1, got 0"),
        (["schedule.warmup=200"], "config: schedule.warmup is 200; it must be less than epochs, 200"),
        (["batch.size=3", "epochs=2"], "config: batch: expected a whole number, got {'size': 3}"),
        (["epochs=ten"], "config: epochs: expected a whole number, got 'ten'"),
        (["resolutions.train=abc"], "config: resolutions.train: expected a list, such as [33,65], got 'abc'"),
        (["epochs"], "override 'epochs': expected section.key=value, such as optimiser.lr=1e-3"),
        (["epochs=3", "epochs.x=4"], "override 'epochs.x=4': epochs is 3, which has no keys"),
        (["epochs=[3"], "override 'epochs=[3': not valid YAML at line 1: "),
    ],
)
def test_what_is_wrong_is_said_in_a_line(overrides: list[str], line: str) -> None:
    with pytest.raises(ValueError, match=":") as caught:
        read_config(None, overrides)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_every_error_has_its_line() -> None:
    with pytest.raises(ValueError, match=":") as caught:
        read_config({"epochs": 0, "sede": 1, "batch": "many"})
    assert len(str(caught.value).splitlines()) == 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no config file .*missing\.yaml"):
        read_config(tmp_path / "missing.yaml")
    for text, line in (
        ("epochs: 3\nepochs: 4\n", "not valid YAML at line 2: the key 'epochs' is given twice"),
        ("- 1\n", "expected sections such as 'problem:' and 'operator:', got list"),
        ("a: [", "not valid YAML at line 1"),
        ("x: !!python/object/apply:os.system [exit]", "not valid YAML at line 1: could not determine a constructor"),
    ):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ValueError, match=r"bad\.yaml") as caught:
            read_config(tmp_path / "bad.yaml")
        assert line in str(caught.value)


def test_reading_a_config_needs_no_torch() -> None:
    code = "import sys, quadnorm.training as t; t.read_config(None, ['epochs=3']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
