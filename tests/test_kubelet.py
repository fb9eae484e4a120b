"""The tests' kubelet: what a pod's paths become on this node."""

from __future__ import annotations

from pathlib import Path

from tests.kube.kubelet import _translation

ROOT = Path(__file__).parents[1]


def test_mounts_become_folders_and_what_an_image_has_stays_even_below_one() -> None:
    translated = _translation({str(ROOT.parent): "/pods/one", "/etc/laketable/plans": "/pods/plans"})
    assert translated(f"{ROOT}/a.jar:{ROOT.parent}/b:/etc/laketable/plans/one") == (
        f"{ROOT}/a.jar:/pods/one/b:/pods/plans/one"
    )
