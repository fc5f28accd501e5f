"""Damaged files of a study are named, set aside and made again; evaluations belong to their weights; locks are kept."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest

from quadnorm.lab.studies.evaluate import errors_of
from quadnorm.lab.studies.records import complete, evaluation_file, folder_of, load, read_json, tasks_of, write_record
from quadnorm.lab.studies.runner import run_study, start_again
from quadnorm.training.files.folder import claimed
from quadnorm.training.interrupt import Interrupted
from quadnorm.training.loop import Loop
from tests.lab.studies.compare import fingerprint
from tests.lab.studies.tiny_study import tiny_study


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    os.environ["QUADNORM_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
    root = tmp_path_factory.mktemp("whole")
    run_study(tiny_study(seeds=(0,)), root, workers=1)
    return root


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def flip(path, at=20):
    data = bytearray(path.read_bytes())
    data[at] ^= 2
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["record.json", "evaluations/as-trained@17.json"])
def test_a_damaged_file_is_made_again_and_the_rest_is_left(whole, copy, name, caplog):
    s = tiny_study(seeds=(0,))
    one, other = tasks_of(s).values()
    before = {p: p.stat().st_mtime_ns for p in folder_of(copy, other).rglob("*") if p.is_file()}
    path = folder_of(copy, one) / name
    flip(path)
    assert not complete(copy, one)
    report = run_study(s, copy, workers=1)
    assert (report.ran, report.existing) == ((one.key,), (other.key,))
    assert f"{path} is damaged: its checksum does not agree with its contents; set aside as" in caplog.text
    assert [p for p in path.parent.iterdir() if ".damaged-" in p.name]
    assert {p: p.stat().st_mtime_ns for p in before} == before
    kept = {k: v for k, v in fingerprint(copy).items() if ".damaged-" not in k}
    assert kept == fingerprint(whole)
    assert len(load(s, copy)) == 8


def test_damaged_weights_are_trained_again_when_they_are_needed(whole, copy, caplog):
    s = tiny_study(seeds=(0,))
    one, _ = tasks_of(s).values()
    flip(folder_of(copy, one) / "best.safetensors", 1000)
    evaluation_file(folder_of(copy, one), "as-trained", 9).unlink()
    run_study(s, copy, workers=1)
    assert "best.safetensors is damaged" in caplog.text
    assert fingerprint(copy) == fingerprint(whole)


@pytest.mark.parametrize("written", ["best", "best and last"])
def test_a_kill_while_a_recorded_run_is_trained_again(whole, copy, written, monkeypatch):
    """A record without weights, as from a pack: its run is trained again, is killed, and goes on to its end."""
    s = tiny_study(seeds=(0,))
    one, _ = tasks_of(s).values()
    assert one.settings.epochs > 1
    (folder_of(copy, one) / "best.safetensors").unlink()
    evaluation_file(folder_of(copy, one), "as-trained", 9).unlink()
    before = Loop._finish

    def finish(self):
        save = self.save

        def killed(best):
            save(best)
            if best is (written == "best"):
                raise Interrupted

        self.save = killed
        before(self)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_finish", finish)
        with pytest.raises(KeyboardInterrupt):
            run_study(s, copy, workers=1)
    run_study(s, copy, workers=1)
    assert fingerprint(copy) == fingerprint(whole)


def test_an_evaluation_of_other_weights_is_not_shown_and_is_made_again(whole, copy):
    s = tiny_study(seeds=(0,))
    one, other = tasks_of(s).values()
    theirs = evaluation_file(folder_of(copy, other), "as-trained", 17)
    shutil.copy(theirs, evaluation_file(folder_of(copy, one), "as-trained", 17))  # sound, but of another model
    assert len(load(s, copy)) == 7
    run_study(s, copy, workers=1)
    assert fingerprint(copy) == fingerprint(whole)


def test_escape_codes_in_a_record_are_written_out(copy):
    folder = folder_of(copy, next(iter(tasks_of(tiny_study(seeds=(0,))).values())))
    write_record(folder, {**read_json(folder / "record.json"), "text": "\x1b[31mred\x07"})
    assert read_json(folder / "record.json")["text"] == "\\x1b[31mred\\x07"


def test_starting_again_refuses_a_run_that_another_process_trains(copy):
    s = tiny_study(seeds=(0,))
    one, other = tasks_of(s).values()
    for task in (one, other):
        (folder_of(copy, task) / "record.json").unlink()
    before = sorted(p for p in copy.rglob("*") if p.is_file())
    with claimed(folder_of(copy, other)), pytest.raises(OSError, match="another process is training in"):
        start_again(s, copy)
    assert sorted(p for p in copy.rglob("*") if p.is_file()) == before
    start_again(s, copy)
    assert not [p for p in copy.rglob("*") if p.is_file()]


def test_starting_again_refuses_a_run_that_another_process_evaluates(copy, whole, monkeypatch):
    """Training has ended, and its lock once had too: weights and evaluations went while they were being written."""
    s = tiny_study(seeds=(0,))
    task = next(iter(tasks_of(s).values()))
    shutil.rmtree(folder_of(copy, task) / "evaluations")
    seen = []

    def meddled(*args):
        if not seen:
            with pytest.raises(OSError, match="another process is training in") as refused:
                start_again(s, copy)
            seen.append(refused)
        return errors_of(*args)

    monkeypatch.setattr("quadnorm.lab.studies.evaluate.errors_of", meddled)
    run_study(s, copy, workers=1)
    assert seen
    assert fingerprint(copy) == fingerprint(whole)


def test_starting_again_leaves_a_run_that_was_finished_meanwhile(copy, whole, monkeypatch):
    s = tiny_study(seeds=(0,))
    folder = folder_of(copy, next(iter(tasks_of(s).values())))
    kept = (folder / "record.json").rename(copy / "later.json")

    @contextmanager
    def waited(folder):
        with claimed(folder):
            kept.rename(folder / "record.json")
            yield

    monkeypatch.setattr("quadnorm.lab.studies.runner.claimed", waited)
    start_again(s, copy)
    assert fingerprint(copy) == fingerprint(whole)


def test_threads_belong_to_a_run_and_not_to_how_a_study_is_run():
    """One thread unless the study says otherwise, however many workers or open runs there are; another number is
    another record."""
    s = tiny_study(seeds=(0,))
    assert {t.config["threads"] for t in tasks_of(s).values()} == {1}
    assert not {*tasks_of(s)} & {*tasks_of(replace(s, threads=2))}
