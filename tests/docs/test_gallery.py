"""Every script of the gallery runs, at a small size, and ends in a picture that shows something."""

import re
import runpy
import sys

import matplotlib
import numpy as np
import pytest

from tests import ROOT

SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
SMALL = {  # constants of the scripts: enough to run every line
    r"^SAMPLES, EPOCHS = .*": "SAMPLES, EPOCHS = 16, 1",
    r"^TRAIN, TEST = .*": "TRAIN, TEST = 17, [17, 33]",
    r"^TRAIN, TEST, PAD = .*": "TRAIN, TEST, PAD = 17, [17, 33], 4",
    r"^SIZES = .*": "SIZES = [(19, 36), (37, 72), (73, 144)]",
    r"^grids = .*": "grids = [33, 65]",
}
# Seconds each: two processes, models that are trained or taken apart. The build of the site runs all of them in full.
SLOW = ("audit", "latlon_fno", "learned_alpha", "neuralop_fno", "padded_fno", "sharded", "train_and_look")


def cost(script):
    name = script.stem.removeprefix("plot_")
    return pytest.param(script, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("script", [cost(s) for s in SCRIPTS])
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_a_script_ends_in_a_picture(script, tmp_path, monkeypatch):
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    source = script.read_text(encoding="utf-8")
    for pattern, small in SMALL.items():
        source = re.sub(pattern, small, source, flags=re.MULTILINE)
    copy = tmp_path / script.name
    copy.write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    names = runpy.run_path(str(copy))
    assert "plt" in names
    assert len(plt.get_fignums()) == 1
    figure = plt.gcf()
    figure.set_dpi(50)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20  # something was drawn
    for axis in figure.axes:
        for line in axis.get_lines():
            assert np.isfinite(np.asarray(line.get_ydata(), dtype=float)).all()
    plt.close("all")


def test_the_order_of_the_gallery_has_every_script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    from gallery_order import ORDER

    assert sorted(ORDER) == [s.name for s in SCRIPTS]
    assert len(SCRIPTS) >= 12
    sys.modules.pop("gallery_order")
