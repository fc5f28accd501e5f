"""The table of messages: what is counted agrees with the formulas, and the model orders as it should."""

from quadnorm.lab.bench.parallel import (
    Exchange,
    Layer,
    _counted,
    _predicted,
    _speed,
    instance_norms,
    predicted,
    spectral_layers,
)


def test_counted_messages_agree_with_the_formulas() -> None:
    s = Layer(n=64, m=4, C=8)
    rows = {row["name"]: row for row in _counted(s)}
    for kind, algorithms in (("norm", instance_norms(s)), ("spectral", spectral_layers(s))):
        for a in algorithms[:1]:
            row = rows[f"{kind}, {a.name}"]
            assert row["known"] == "counted"
            assert row["messages"] == f"{len(a.forward)} + {len(a.backward)}"
            assert row["forward_bytes"] == sum(e.bytes for e in a.forward)
            assert row["backward_bytes"] == sum(e.bytes for e in a.backward)
    gathered = rows["norm, DTensor"]
    assert gathered["known"] == "counted"
    assert gathered["forward_bytes"] == s.field  # the whole of what this rank holds
    assert rows["spectral, DTensor"]["known"] == "the least it could be"


def test_bytes_do_not_depend_on_the_resolution() -> None:
    for layers in (instance_norms, spectral_layers):
        coarse, fine = layers(Layer(n=1024, P=64))[0], layers(Layer(n=8192, P=64))[0]
        assert (coarse.forward, coarse.backward) == (fine.forward, fine.backward)


def test_predictions() -> None:
    """Two hops of 1 s each way and no bandwidth to speak of; then bandwidth alone."""
    assert Exchange("all-reduce", 100).seconds(4, 1.0, 1e30) == 4.0
    assert Exchange("all-gather", 100).seconds(4, 0.0, 100.0) == 3.0
    assert Exchange("all-to-all", 100).seconds(4, 0.0, 100.0) == 0.75
    for P in (64, 1024):
        ours, *others = (predicted(a, P) for a in spectral_layers(Layer(n=8192, P=P)))
        assert all(ours < other for other in others)
    assert len(_predicted(Layer(n=8192, P=64))) == 8


def test_two_processes_against_one() -> None:
    (row,) = _speed(32, 1)
    assert row["ratio"] > 0
    assert row["peer"] == "1 process"
