"""One bit changed in any file that is read back: it is noticed, by name."""

import os
import random
import shutil

import pytest

from quadnorm._files import DamagedError, read_sealed
from quadnorm.lab.studies.records import folder_of, tasks_of
from quadnorm.lab.studies.runner import run_study
from quadnorm.problems import cache, problem
from quadnorm.training import train
from quadnorm.training.files.checkpoint import read_checkpoint
from tests.faults.effort import LONG, report, rounds
from tests.lab.studies.tiny_study import tiny_study
from tests.training.tiny_runs import TINY

pytestmark = pytest.mark.faults


def read_block(path):
    """A block of the cache, as a new process would read it."""
    cache._checked.clear()
    cache._open(path.parent)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of every kind, each with its reader."""
    os.environ["QUADNORM_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    root = tmp_path_factory.mktemp("study")
    study = tiny_study(seeds=(0,))
    run_study(study, root, workers=1)
    run = folder_of(root, next(iter(tasks_of(study).values())))
    train(TINY, root / "train", progress=False)
    p = problem("poisson", modes=4)
    block = next(cache.folder(p).glob("seed-0/block-*"))
    return [
        (run / "best.safetensors", read_checkpoint),
        (root / "train" / "last.safetensors", read_checkpoint),
        (run / "record.json", read_sealed),
        (run / "evaluations" / "as-trained@17.json", read_sealed),
        (block / "f.npy", read_block),
        (block / "block.json", read_block),
    ]


def test_every_flipped_bit_is_noticed(files, tmp_path):
    choose = random.Random(os.urandom(8) if LONG else 7)
    tried, unnoticed = 0, []
    whole = {path: path.read_bytes() for path, _ in files}
    for path, read in files:
        read(path)  # sound as it is
    for k in rounds(short=600, goal=6000, share=0.1):
        path, read = files[k % len(files)]
        data = bytearray(whole[path])
        at, bit = choose.randrange(len(data)), choose.randrange(8)
        data[at] ^= 1 << bit
        path.write_bytes(data)
        tried += 1
        try:
            read(path)
        except (DamagedError, ValueError, OSError, KeyError, TypeError):
            continue
        finally:
            path.write_bytes(whole[path])
        unnoticed.append((path.name, at, bit))
    report(f"{len(unnoticed)} unnoticed of {tried} flipped bits in {len(files)} kinds of files")
    assert unnoticed == []


def test_a_study_with_flips_everywhere_mends_itself(tmp_path):
    """Every file of a finished study has a flipped bit: run again, it holds what it held."""
    from tests.lab.studies.compare import fingerprint

    study = tiny_study(seeds=(0,))
    run_study(study, tmp_path / "whole", workers=1)
    shutil.copytree(tmp_path / "whole", tmp_path / "hit")
    hit = [p for p in sorted((tmp_path / "hit").rglob("*")) if p.suffix == ".json" or p.name == "best.safetensors"]
    for path in hit:
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 16
        path.write_bytes(data)
    run_study(study, tmp_path / "hit", workers=1)
    mended = {k: v for k, v in fingerprint(tmp_path / "hit").items() if ".damaged-" not in k}
    assert mended == fingerprint(tmp_path / "whole")
