"""Studies run, stop, resume and record; nothing is done twice, nothing is lost, nothing is half-written."""

import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from quadnorm.lab.studies import Method, study, study_names
from quadnorm.lab.studies.evaluate import anchored_in_part, band, errors_of, octaves, predictor
from quadnorm.lab.studies.pictures import read_picture
from quadnorm.lab.studies.records import (
    complete,
    evaluation_file,
    folder_of,
    load,
    read_json,
    tasks_of,
    write_record,
)
from quadnorm.lab.studies.runner import run_study, select
from quadnorm.lab.studies.study import AS_TRAINED, EXTENDED, NATIVE, TRANSFERRED, Way
from quadnorm.operators import ResNet
from quadnorm.problems import problem
from quadnorm.training import TrainConfig, load_model
from quadnorm.training.config import read
from quadnorm.training.data import samples
from quadnorm.training.versions import NUMERICS
from tests.lab.studies.compare import fingerprint
from tests.lab.studies.tiny_study import ANCHORED, tiny_study


def test_records_hold_every_number(finished):
    rows = load(tiny_study(), finished)
    assert len(rows) == 2 * 2 * 2 * 2  # methods, seeds, evaluations, grids
    assert all(0 < row.error < 1000 for row in rows)
    by = {(r.method, r.seed, r.evaluation, r.grid): r.error for r in rows}
    for method in ("LayerNorm", "QuadNorm"):
        for seed in (0, 1):
            # anchoring changes nothing at the training grid, and something elsewhere
            assert by[method, seed, "anchor-all", 9] == pytest.approx(by[method, seed, "as-trained", 9], rel=1e-4)
            assert by[method, seed, "anchor-all", 17] != by[method, seed, "as-trained", 17]


def test_leftovers_of_a_kill_after_the_last_epoch_go(finished, tmp_path):
    """Training that has ended does not claim its folder again: the study itself has to look for them."""
    root = tmp_path / "copy"
    shutil.copytree(finished, root)
    folder = folder_of(root, next(iter(tasks_of(tiny_study()).values())))
    (folder / "record.json").unlink()
    for place in (folder, folder / "evaluations"):
        (place / ".quadnorm-0123456789abcdef.part").write_bytes(b"half a rec")
    run_study(tiny_study(), root, workers=1, threads=1)
    assert (folder / "record.json").exists()
    assert not list(root.rglob("*.part"))


def test_a_record_says_where_it_comes_from(finished):
    for task in tasks_of(tiny_study()).values():
        record = json.loads((folder_of(finished, task) / "record.json").read_text())
        assert record["status"] == "done"
        assert record["data"]
        assert record["numerics"] == NUMERICS
        assert record["environment"]["packages"]["torch"]
        assert record["config"]["seed"] in (0, 1)
        assert not (folder_of(finished, task) / "last.safetensors").exists()
        model, _ = load_model(folder_of(finished, task))
        assert record["parameters"] == sum(p.numel() for p in model.parameters())


def test_what_figures_need_is_kept_with_the_run(tmp_path):
    """Fields of the first seed, as the model predicts them to half precision of the error, and its audit; once."""
    s = tiny_study(pictured=("LayerNorm",))
    s = replace(s, evaluations=(AS_TRAINED, NATIVE))
    run_study(s, tmp_path, workers=1, threads=1)
    kept = sorted(p.parent.parent.name for p in tmp_path.rglob("pictures/*"))
    (key,) = set(kept)
    assert len(kept) == 5  # two ways at two grids, and the audit
    folder = tmp_path / "runs" / key
    model, config = load_model(folder)
    x, y = samples(config, "test", [17])[17]
    with torch.no_grad():
        guess = model(x)[0, 0].double().numpy()
    picture = read_picture(folder, "as-trained", 17)
    np.testing.assert_allclose(picture.x, x[0, 0].numpy(), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(picture.truth, y[0, 0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(picture.prediction, guess, rtol=0, atol=1e-3 * abs(guess - y[0, 0].numpy()).max())
    assert read_picture(folder, "as-trained", 33) is None
    leaks = json.loads((folder / "pictures" / "audit.json").read_text())["leaks"]
    assert leaks[0]["introduced"] >= leaks[-1]["introduced"] > 0
    report = run_study(s, tmp_path, workers=1, threads=1)
    assert not report.ran
    (folder / "pictures" / "native@17.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="is damaged"):
        read_picture(folder, "native", 17)
    (folder / "pictures" / "native@17.npz").unlink()
    assert len(run_study(s, tmp_path, workers=1, threads=1).ran) == 1


def test_learned_blends_are_read_out(tmp_path):
    """α as it was learned, one for each norm; a model without one has none in its record."""
    s = tiny_study(seeds=(0,), evaluations=(AS_TRAINED,))
    learned = Method("learned", "blend:learned")
    s = replace(s, variants=(replace(s.variants[0], methods=(learned, Method("fixed", "blend:0.3"))),))
    run_study(s, tmp_path, workers=1, threads=1)
    one, other = (json.loads((folder_of(tmp_path, t) / "record.json").read_text()) for t in tasks_of(s).values())
    assert "alpha" not in other
    (alpha,) = one["alpha"].values()
    assert 0.29 < alpha < 0.31  # from 0.3, in six steps of 1e-3
    assert alpha != 0.3
    assert one["parameters"] == other["parameters"] + 1


def test_parameters_are_those_of_the_paper():
    """Transolver 307K; the FNO as documented, complex weights counted once."""
    from quadnorm.lab.studies.runner import facts_of
    from quadnorm.operators import FNO, Transolver

    assert facts_of(FNO(norm="none"))["parameters"] == 1_188_353
    assert round(facts_of(Transolver())["parameters"] / 1000) == 308  # 307,505 and the norms' affine maps


def test_methods_share_data_seeds_and_budget():
    tasks = list(tasks_of(tiny_study()).values())
    first = {k: v for k, v in tasks[0].config.items() if k not in ("operator", "seed")}
    for task in tasks[1:]:
        assert {k: v for k, v in task.config.items() if k not in ("operator", "seed")} == first


def test_a_config_is_validated_once_and_sent_along(monkeypatch):
    """By the process that plans, for its own use and for the worker that the task is sent to."""
    validated, checked = [], read.checked
    monkeypatch.setattr(read, "checked", lambda *given: validated.append(given) or checked(*given))
    task = next(iter(tasks_of(tiny_study()).values()))
    assert not validated  # names and plans need none
    assert pickle.loads(pickle.dumps(task)).settings == task.settings  # a copy that has not been asked before
    assert pickle.loads(pickle.dumps(task)).settings == task.settings
    assert len(validated) == 2


def test_nothing_is_done_twice(finished):
    before = fingerprint(finished)
    stamps = {p: p.stat().st_mtime_ns for p in finished.rglob("*") if p.is_file()}
    report = run_study(tiny_study(), finished, workers=1, threads=1)
    assert (len(report.ran), len(report.existing)) == (0, 4)
    assert fingerprint(finished) == before
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


def test_another_study_of_the_same_models_only_evaluates(finished):
    other = tiny_study("other", evaluations=(AS_TRAINED, NATIVE))
    weights = {p: p.stat().st_mtime_ns for p in finished.rglob("best.safetensors")}
    run_study(other, finished, workers=1, threads=1)
    assert {p: p.stat().st_mtime_ns for p in weights} == weights
    assert {r.evaluation for r in load(other, finished)} == {"as-trained", "native"}


def test_mixtures_are_refused(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "mixed")
    s = tiny_study()
    folder = folder_of(tmp_path / "mixed", next(iter(tasks_of(s).values())))
    record = read_json(folder / "record.json")
    write_record(folder, {**record, "numerics": NUMERICS + 1})
    with pytest.raises(ValueError, match="different versions of the code"):
        load(s, tmp_path / "mixed")
    assert len(load(s, tmp_path / "mixed", allow_mixed=True)) == 16
    write_record(folder, {**record, "data": "another"})
    with pytest.raises(ValueError, match="2 different versions of the poisson data"):
        load(s, tmp_path / "mixed", allow_mixed=True)
    write_record(folder, {**record, "format": 0})
    with pytest.raises(ValueError, match="has format 0"):
        load(s, tmp_path / "mixed")
    (folder / "record.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        load(s, tmp_path / "mixed")


def test_a_run_that_diverges_is_recorded_as_such(tmp_path):
    s = tiny_study(seeds=(0,))
    wild = replace(s.variants[0].budget, lr=1e30)
    s = replace(s, variants=(replace(s.variants[0], budget=wild),))
    report = run_study(s, tmp_path, workers=1, threads=1)
    assert len(report.diverged) == 2
    assert all(torch.tensor(r.error).isnan() for r in load(s, tmp_path))
    assert run_study(s, tmp_path, workers=1, threads=1).existing  # and it is not tried again


def test_select():
    s = tiny_study()
    assert select(s, [1]).seeds == (1,)
    assert [m.label for m in select(s, None, ["QuadNorm"]).variants[0].methods] == ["QuadNorm"]
    with pytest.raises(ValueError, match="did you mean 'QuadNorm'"):
        select(s, None, ["quadnorm"])
    with pytest.raises(ValueError, match="no seeds"):
        select(s, [])


def test_seeds_on_the_command_line(capsys):
    from quadnorm.cli.app import run

    for seeds, count in (("2", 2), ("0,5", 2), ("4,", 1), ("3,3", 1), ("12", 12)):
        assert run(["study", "plan", "tost", "--seeds", seeds]) == 0
        assert f"{2 * count} runs, about" in capsys.readouterr().out  # two methods
    for seeds in ("-1", "0,-2", "0", "a"):
        assert run(["study", "plan", "tost", f"--seeds={seeds}"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write results to"):
        run_study(tiny_study(), tmp_path / "file", workers=1, threads=1)


# --- ways to use a model ---------------------------------------------------------------------------------------------


def test_anchoring_in_part(finished):
    task = next(iter(tasks_of(tiny_study()).values()))
    model, config = load_model(folder_of(finished, task))
    x = torch.randn(2, 1, 33, 33)
    with torch.no_grad():
        outputs = {part: anchored_in_part(model, (9, 9), "endpoint", part)(x) for part in ("norms", "kernels", "all")}
        outputs[""] = model(x)
        native = torch.randn(2, 1, 9, 9)
        for part in ("norms", "kernels", "all"):
            torch.testing.assert_close(
                anchored_in_part(model, (9, 9), "endpoint", part)(native), model(native), rtol=1e-4, atol=1e-5
            )
    values = list(outputs.values())
    assert all(not torch.allclose(a, b, atol=1e-7) for i, a in enumerate(values) for b in values[:i])
    with pytest.raises(ValueError, match="part of a model"):
        anchored_in_part(model, (9, 9), "endpoint", "some")
    found = errors_of(model, config, ANCHORED, 17)
    assert set(found) == {"plain", "weighted", "octaves"}
    assert len(found["octaves"]["error"]) == 4  # below 1 period per length, to 2, to 4, to 8


def test_adapted_models_serve_every_grid(finished):
    """Kept for the next grid and view they give what new ones give, and a network without sums is its own anchoring."""
    task = next(iter(tasks_of(tiny_study()).values()))
    model, config = load_model(folder_of(finished, task))
    kept = {}
    for n, way in ((17, EXTENDED), (13, EXTENDED), (17, TRANSFERRED)):
        assert errors_of(model, config, way, n, kept) == errors_of(model, config, way, n)
    assert [key[0] for key in kept] == ["extended", "transferred"]
    plain = ResNet(width=4, layers=1)
    assert anchored_in_part(plain, (9, 9), "endpoint", "all") is plain


def test_octaves_add_up_to_the_relative_error():
    """Parseval: on periodic grids and cell centres the parts are those of the mean square, for noise too."""
    torch.manual_seed(0)
    for placement, shape in (("periodic", (12, 10)), ("cell", (9, 12)), (("cell", "periodic"), (8, 8))):
        e, u = torch.randn(2, 3, 2, *shape, dtype=torch.float64)
        parts = octaves(e, u, placement)
        mean = (e.flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)).square().mean()
        assert sum(parts["error"]) == pytest.approx(float(mean), rel=1e-4)
        assert sum(parts["truth"]) == pytest.approx(1, rel=1e-4)


def test_octaves_of_single_waves():
    """By the largest wavenumber of a wave: 5 periods along y are of 4 to 8, cos(5πx) has 2½, of 2 to 4."""
    t = torch.arange(32) / 32
    plane = torch.sin(2 * torch.pi * (t[:, None] + 5 * t))[None, None]
    assert octaves(plane, plane, "periodic")["error"] == pytest.approx([0, 0, 0, 1, 0], abs=1e-10)
    t = torch.linspace(0, 1, 33)
    half = torch.cos(5 * torch.pi * t)[None, None]
    assert octaves(half, half, "endpoint")["error"] == pytest.approx([0, 0, 1, 0, 0], abs=1e-10)
    t = (torch.arange(32) + 0.5) / 32
    assert octaves(0 * t[None, None], torch.cos(torch.pi * t)[None, None], "cell") == {
        "error": [0.0] * 5, "truth": pytest.approx([1, 0, 0, 0, 0], abs=1e-10),
    }  # fmt: skip


def test_upsampling_runs_at_the_training_grid():
    seen = []

    def model(x):
        seen.append(tuple(x.shape[2:]))
        return x

    # A cubic polynomial comes back exactly: nested grids restrict exactly, cubic splines reproduce cubics.
    t = torch.linspace(0, 1, 33, dtype=torch.float64)
    field = (t**3)[:, None] * (1 - t**2) + 0 * t
    config = TrainConfig(problem={"name": "poisson"}, resolutions={"train": [9]})
    out = predictor(model, config, NATIVE, problem("poisson"), (33, 33))(field[None, None])
    assert seen == [(9, 9)]
    torch.testing.assert_close(out[0, 0], field, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="unknown route"):
        predictor(model, config, Way("x", "x", "teleport"), problem("poisson"), (33, 33))


def test_band_keeps_what_both_grids_can_hold():
    """A band-limited periodic field moves between grids exactly, up and down."""

    def wave(n):
        s = torch.arange(n, dtype=torch.float64) / n
        return torch.sin(2 * torch.pi * s)[:, None] + torch.cos(6 * torch.pi * s)

    for m, n in ((16, 33), (33, 16), (9, 10), (10, 9)):
        torch.testing.assert_close(band(wave(m), (n, n)), wave(n), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", study_names())
def test_every_study_of_the_catalog_runs(name, tmp_path):
    s = select(study(name).at("smoke"), [0])
    report = run_study(s, tmp_path, workers=2, threads=1)
    assert all(complete(tmp_path, t) for t in tasks_of(s).values())
    assert report.ran or report.diverged


SOME = ["galerkin-elasticity", "transolver-helmholtz", "quadrature-ablation"]


@pytest.mark.parametrize("name", SOME)
def test_some_studies_run_at_smoke_scale(name, tmp_path):
    s = study(name).at("smoke")
    kept = [v.methods[0].label for v in s.variants]
    s = select(replace(s, variants=s.variants[:2]), [0], kept[:1])
    run_study(s, tmp_path, workers=1, threads=1)
    assert load(s, tmp_path)
    for task in tasks_of(s).values():
        for e in s.evaluations:
            for n in task.grids:
                assert evaluation_file(folder_of(tmp_path, task), e.name, n).exists()
