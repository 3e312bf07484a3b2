"""When jax's profiler is left alone."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from portakern.backends.tpu.run import clock

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("wanted", "here", "asked", "fits"), [
    ('libtpu==0.0.42.*; extra == "tpu"', "0.0.42.1", "", True),
    ('libtpu==0.0.42.*; extra == "tpu"', "0.0.52", "", False),
    ('libtpu==0.0.42.*; extra == "tpu"', "0.0.52", "on", True),
    ('libtpu==0.0.42.*; extra == "tpu"', "0.0.42", "off", False),
    ("numpy>=2", "0.0.52", "", True),
])  # fmt: skip
def test_a_libtpu_that_jax_was_not_made_for_is_not_profiled(monkeypatch: pytest.MonkeyPatch, wanted: str, here: str, asked: str,
                                                            fits: bool):  # fmt: skip
    monkeypatch.setattr(clock.metadata, "requires", lambda name: [wanted])
    monkeypatch.setattr(clock, "package_version", lambda name: here)
    monkeypatch.setenv(clock.SWITCH, asked)
    assert (not clock.unfit()) == fits
    if not fits and not asked:
        assert "0.0.52 is here" in clock.unfit() and "jax[tpu]" in clock.unfit()
