"""The catalog: complete, consistent with the printed tables, and small where a preset says so."""

import json
import pickle
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import combinations

import pytest
import torch

from quadnorm.lab.studies import (
    Method,
    Run,
    derived,
    derived_names,
    estimate,
    paper_labels,
    paper_table,
    study,
    study_names,
)
from quadnorm.lab.studies.paper import NOT_EXPERIMENTAL
from quadnorm.lab.studies.records import tasks_of
from quadnorm.lab.studies.study import PRESETS, STAND_INS, TRANSFER
from quadnorm.problems import problem, problem_names
from quadnorm.training.config import LEARNING_RATES, TrainConfig
from quadnorm.training.model import Sizes, build_model, operator_class

STUDIES = [study(name) for name in study_names()]
each_study = pytest.mark.parametrize("s", STUDIES, ids=lambda s: s.name)


def test_every_label_of_the_paper_is_covered_once():
    by_study = [label for s in STUDIES for label in s.tables]
    by_derived = [derived(name).label for name in derived_names()]
    covered = [*by_study, *by_derived, *NOT_EXPERIMENTAL]
    assert len(covered) == len(set(covered)) == 45
    assert set(covered) == {*paper_labels(), "tab:notation"}


def test_derived_tables_draw_on_studies():
    for name in derived_names():
        assert set(derived(name).draws_on) <= set(study_names())
        assert derived(name).label == f"tab:{name}"


@each_study
def test_parts_exist_and_names_are_unique(s):
    assert len({v.name for v in s.variants}) == len(s.variants)
    assert s.seeds == tuple(range(len(s.seeds)))
    assert len({e.name for e in s.evaluations}) == len(s.evaluations)
    for v in s.variants:
        assert v.problem in problem_names()
        assert v.budget.lr == (1e-3 if s.name == "mesh-transfer" else LEARNING_RATES[v.operator])  # its note says why
        assert len({m.label for m in v.methods}) == len(v.methods)


def network(run: Run) -> str:
    """What a run's untrained model is and does: parameters by name and shape, and outputs on two grids.

    Two models that agree here are the same network: they start from the same weights and compute the same function.
    """
    config = TrainConfig(**run.config())
    p = problem(config.problem.name, **config.problem.params)
    model = build_model(config, Sizes.of(p)).double()
    shapes = [(name, tuple(v.shape)) for name, v in model.named_parameters()]
    outputs = []
    for n in {*run.variant.train, run.variant.test[-1]}:
        x = p.sample(1, n, dtype=torch.float64)[0] if p.placement == "points" else _noise(p, n)
        with torch.no_grad():
            outputs.append([f"{v:.9g}" for v in model(x).flatten()[:: n // 2].tolist()])
    return json.dumps([shapes, outputs])


def _noise(p, n: int) -> torch.Tensor:
    return torch.randn(1, len(p.inputs), *p.shape(n), dtype=torch.float64, generator=torch.Generator().manual_seed(n))


@each_study
def test_no_two_methods_of_a_study_build_the_same_network(s):
    for v in (v for v in s.at("smoke").variants if len(v.methods) > 1):
        networks = {m.label: network(Run(v, m, 0)) for m in v.methods}
        for a, b in combinations(networks, 2):
            assert networks[a] != networks[b], f"{s.name}, {v.name}: {a} and {b} are the same network"


def test_the_network_test_can_fail():
    """On periodic data the name quad alone means equal weights: the network of InstanceNorm."""
    v = study("fno-periodic-ns").at("smoke").variants[0]
    same = [Run(v, Method(norm, norm), 0) for norm in ("instance", "quad:instance", "quad:instance:periodic")]
    assert len({network(run) for run in same}) == 1


@each_study
def test_every_printed_error_has_its_place(s):
    """Each error of each table of a study belongs to one variant, method and resolution."""
    for label in s.tables:
        variants = [v for v in s.variants if v.label == label]
        if not variants:
            assert label in ("tab:tost", "tab:model-scaling")  # one comparison; a digest of the other tables
            continue
        for title in {v.panel for v in variants}:
            cells = paper_table(label).errors(title)
            placed = [c for v in variants if v.panel == title for c in v.printed().values()]
            assert len(placed) == len(cells)
        assert len({v.panel for v in variants}) in (1, len(paper_table(label).panels))


@each_study
def test_grids_seeds_and_statistic_are_those_of_the_table(s):
    for v in s.variants:
        if v.label is None or v.label not in s.tables:
            continue
        table = paper_table(v.label)
        if table.train:
            assert v.train == table.train
        assert set(v.test) == {n for _, n in table.errors(v.panel)}
        if v.label != "tab:learnable-baselines":  # 5 or 10, row by row, without saying which
            assert len(s.seeds) == table.seeds
        assert s.spread(v) == table.spread


@each_study
@pytest.mark.parametrize("preset", PRESETS)
def test_runs_are_valid_training_configs(s, preset):
    concrete = s.at(preset)
    runs = list(concrete.runs())
    assert len(runs) == sum(len(concrete.seeds_of(m)) for v in concrete.variants for m in v.methods)
    assert len({json.dumps([r.variant.name, r.config()]) for r in runs}) == len(runs)
    for run in runs[:: max(1, len(runs) // 20)]:
        config = TrainConfig(**run.config())
        assert config.operator.params["norm"] == run.method.norm
        assert config.steps == run.variant.budget.steps
        if "modes" in config.operator.params:
            assert config.operator.params["modes"] <= min(run.variant.train + run.variant.test) // 2


@each_study
def test_every_study_with_other_grids_is_used_in_every_way(s):
    if all(set(v.test) <= set(v.train) for v in s.variants):
        assert [e.name for e in s.evaluations] == ["as-trained"]
    elif s.name == "demo":  # the way to begin with, what it starts from, and its simplest rival
        assert {"as-trained", "transferred", "native"} == {e.name for e in s.evaluations}
    elif s.name == "mesh-transfer":  # no anchoring on points
        assert {"as-trained", "native"} <= {e.name for e in s.evaluations}
    elif s.name.startswith("false-promise-multires"):  # what false-promise's ways are compared with
        assert {e.route for e in s.evaluations} == {"direct"}
    else:
        assert set(TRANSFER) <= set(s.evaluations)


def test_spectral_and_band_rows_have_the_papers_five_seeds():
    counts = Counter(run.method.label for run in study("extended-baselines").runs())
    assert {label: counts[label] for label in ("LayerNorm", "SpectralNorm", "RI-BandNorm", "QuadBandNorm")} == {
        "LayerNorm": 10, "SpectralNorm": 5, "RI-BandNorm": 5, "QuadBandNorm": 5,
    }  # fmt: skip


def test_the_released_files_are_split_as_the_paper_says():
    """Training and validation from smooth1 (samples 0 to 1023), test from smooth2."""
    for s in STUDIES:
        for v in (v for v in s.variants if v.problem == "darcy-official"):
            samples = TrainConfig(**Run(v, v.methods[0], 0).config()).samples
            train, val, test = (samples.indices(split) for split in ("train", "val", "test"))
            assert train.start == 0
            assert train.stop == val.start
            assert val.stop <= 1024
            assert (test.start, len(test)) == (1024, 200)


def test_depth_changes_nothing_but_the_depth():
    whole = [{**r.config(), "layers": r.variant.operator_params["layers"]} for r in study("depth").runs()]
    for config in whole:
        assert config["operator"]["params"].pop("layers") == config.pop("layers")
    assert len({json.dumps(c) for c in whole}) == len(whole) // 3
    shared = [r.config() for r in study("extreme-crossres").runs()]
    assert all(r.config() in shared for r in study("depth").runs() if r.variant.name == "4 layers" and r.seed < 5)


def test_operators_take_what_the_catalog_gives_them():
    """Every operator and norm of the catalog, built at smoke size and run on the coarsest and the training grid."""
    models = {}
    for s in STUDIES:
        for run in s.at("smoke").runs():
            part = run.config()["operator"]
            models[json.dumps(part, sort_keys=True)] = (part, {*run.variant.train, min(run.variant.test)})
    for part, grids in models.values():
        if part["name"] == "physicsnemo-fno" and find_spec("physicsnemo") is None:
            continue  # no extra installs it; tests/training/model/test_packages.py has it where it is
        model = operator_class(part["name"])(**part["params"])
        for n in grids:
            with torch.no_grad():
                out = model(torch.ones(1, 1, n, n))
            assert out.shape == (1, 1, n, n)


# Minutes on two cores. A Transolver on Helmholtz learns the problem in no less time (the catalog says what was tried),
# and a model that has not learned decides nothing: these studies have more time, and share their runs.
SLOW = ("transolver-helmholtz", "transolver-helmholtz-4x", "alpha-matrix", "seed-variance")
MINUTES = {"demo": 8, **dict.fromkeys(SLOW, 100)}
MINUTES |= dict.fromkeys(
    ("real-darcy", "cross-fidelity", "model-scaling", "multiarch-nonperiodic"), 30
)  # with readings


@each_study
def test_desk_fits_the_time_and_keeps_the_question(s):
    desk = s.at("desk")
    assert estimate(desk).minutes(workers=2) <= MINUTES.get(s.name, 20)
    assert len(desk.seeds) >= (1 if s.name == "demo" else 3)
    for before, after in zip(s.variants, desk.variants, strict=True):
        gap = [max(v.test) / min(v.train) for v in (before, after)]
        assert gap[1] == pytest.approx(gap[0], rel=0.01)
        assert after.operator == before.operator
        assert after.operator_params["layers"] == before.operator_params["layers"]
        assert len(after.test) == len(before.test)
        assert after.problem == STAND_INS.get(before.problem, before.problem)
        assert {m.label for m in after.methods} <= {m.label for m in before.methods}
        assert len(after.methods) >= min(3, len(before.methods))
        assert after.budget.epochs <= before.budget.epochs


def test_the_whole_desk_preset_takes_eight_hours_at_most():
    """On two cores. Studies share models: each counts once."""
    seconds = {}
    for name in study_names():
        s = study(name).at("desk")
        each = estimate(s).core_seconds / len(list(s.runs()))
        seconds |= dict.fromkeys(tasks_of(s), each)
    assert sum(seconds.values()) / 2 <= 8 * 3600


def test_desk_keeps_the_order_of_model_sizes():
    widths = [v.operator_params["width"] for v in study("model-scaling").at("desk").variants]
    assert widths == [16, 32, 64, 16, 32, 64]


@each_study
def test_smoke_takes_seconds_and_every_method(s):
    smoke = s.at("smoke")
    assert estimate(smoke).core_seconds < 30
    assert len(smoke.seeds) == 2
    for before, after in zip(s.variants, smoke.variants, strict=True):
        assert after.methods == before.methods
        assert len(set(after.test)) == len(before.test)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ["anchored-crossres", "transfer-baselines"])
def test_studies_of_trained_models_train_none_of_them_again(name, preset):
    models = [r.config() for r in study("extreme-crossres").at(preset).runs()]
    own = study(name).at(preset)
    assert all(r.config() in models for r in own.runs() if r.variant.name == "fno")


def test_presets_are_taken_once_and_by_name():
    s = study("extreme-crossres")
    assert s.at("paper") is s
    desk = s.at("desk")
    assert desk.at("desk") is desk
    assert desk.preset == "desk"
    with pytest.raises(ValueError, match="already at preset 'desk'"):
        desk.at("smoke")
    with pytest.raises(ValueError, match="did you mean 'desk'"):
        s.at("desc")


def test_unknown_names_are_answered():
    with pytest.raises(ValueError, match="did you mean 'deep-crossres'"):
        study("deep-crosres")
    with pytest.raises(ValueError, match="computed from studies: run extreme-crossres, deep-crossres"):
        study("effect-sizes")
    with pytest.raises(ValueError, match="did you mean 'effect-sizes'"):
        derived("effect-size")
    with pytest.raises(ValueError, match="unknown variant of real-darcy 'gno'"):
        study("real-darcy").variant("gno")
    with pytest.raises(ValueError, match="did you mean 'QuadNorm'"):
        study("real-darcy").variant("fno").method("quadnorm")
    assert study("tab:tost") is study("tost")


def test_studies_travel_between_processes():
    for s in STUDIES:
        assert pickle.loads(pickle.dumps(s.at("desk"))) == s.at("desk")


def test_the_catalog_needs_neither_torch_nor_numpy():
    code = "import sys, quadnorm.lab.studies as s; s.study('tost').at('desk'); "
    code += "print({'torch', 'numpy'} & set(sys.modules))"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert imported == "set()"
