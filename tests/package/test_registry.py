"""The registry: backends through entry points, targets by name and pattern, and what can be wrong with them."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from portakern.backend import Target
from portakern.errors import UsageError
from portakern.registry import ONLY, Registry, registry, targets
from portakern.study import steps

pytestmark = pytest.mark.quick

MANIFEST = """
from pathlib import Path
from portakern.backend import Backend, Language

def language(name, *targets):
    return Language(name, name, targets, None, None)

backend = Backend({name!r}, tuple([{languages}]), Path(__file__).parent / "devices"{more})
"""

DEVICE = """
name = "{name}"
vendor = "Antiquity"
kind = "cpu"
title = "An abacus"
dtypes = ["i32"]
default_product = "{name}-pro"
[figures]
beads = {{ value = 10, unit = "beads", source = "counted" }}
[products.{name}-pro.figures]
clock = {{ value = 1, unit = "Hz", source = "counted" }}
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs backends from elsewhere as pip would leave them; no others are seen."""
    modules: list[str] = []

    def install(name: str, languages: str, devices: tuple[str, ...] = ("iron", "wood"), more: str = "", text: str = "",
                announced: dict[str, str] | None = None):  # fmt: skip
        package = tmp_path / f"pk_{name}"
        (package / "devices").mkdir(parents=True)
        (package / "__init__.py").write_text(text or MANIFEST.format(name=name, languages=languages, more=more))
        for device in devices:
            (package / "devices" / f"{device}.toml").write_text(DEVICE.format(name=device))
        info = tmp_path / f"pk_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pk-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[portakern.backends]\n{name} = pk_{name}:backend\n" + "".join(
            f"[portakern.{group}]\n" + "".join(f"{x} = pk_{name}:backend\n" for x in offered.split())
            for group, offered in (announced or {}).items()))
        modules.append(f"pk_{name}")
        importlib.invalidate_caches()
        registry.cache_clear()

    def only_ours() -> importlib.metadata.EntryPoints:
        everything = importlib.metadata.distributions(path=[str(tmp_path)])
        return importlib.metadata.EntryPoints(entry for distribution in everything for entry in distribution.entry_points)

    monkeypatch.setattr("portakern.registry.entry_points", only_ours)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    registry.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def two(install: Install) -> Registry:
    install("counting", 'language("beads", "iron", "wood"), language("rods", "wood")')
    install("drawing", 'language("chalk", "slate")', devices=("slate",))
    return registry()


def names(patterns: str) -> list[str]:
    return [str(target) for target in targets(patterns)]


def test_backends_languages_and_devices_are_found(two: Registry):
    assert [backend.name for backend in two.backends] == ["counting", "drawing"]
    assert list(two.languages) == ["beads", "rods", "chalk"]
    assert two.backend_of("rods").name == "counting"
    assert sorted(two.devices("rods")) == ["wood", "wood-pro"]
    assert two.broken == ()


def test_a_process_for_one_language_loads_what_that_needs(two: Registry, monkeypatch: pytest.MonkeyPatch):
    environment = two.environment_for("chalk")
    assert environment == {ONLY: "drawing"}
    monkeypatch.setenv(ONLY, environment[ONLY])
    registry.cache_clear()
    assert list(registry().languages) == ["chalk"]
    monkeypatch.setenv(ONLY, " counting , drawing")
    registry.cache_clear()
    assert len(registry().backends) == 2


@pytest.mark.parametrize("language", registry().languages)
def test_it_finds_the_machines_of_its_language(language: str, monkeypatch: pytest.MonkeyPatch):
    whole = registry()
    targets = [Target(language, d) for d in whole.devices(language).values()]
    wanted = [(whole.machine(t) is None, whole.estimator(t) is None) for t in targets]
    monkeypatch.setenv(ONLY, whole.environment_for(language)[ONLY])
    registry.cache_clear()
    try:
        assert [(registry().machine(t) is None, registry().estimator(t) is None) for t in targets] == wanted
    finally:
        registry.cache_clear()


def test_what_announces_its_languages_is_imported_when_one_of_them_is_asked_for(install: Install):
    install("counting", 'language("beads", "iron", "wood")', announced={"languages": "beads"})
    install("drawing", 'language("chalk", "slate")', devices=("slate",), announced={"languages": "chalk"})
    assert names("chalk:slate,chalk:*") == ["chalk:slate"]
    assert registry().environment_for("chalk") == {ONLY: "drawing"}
    assert registry().machine(registry().target("chalk:slate")) is None
    assert "pk_drawing" in sys.modules and "pk_counting" not in sys.modules
    assert [b.name for b in registry().backends] == ["counting", "drawing"]


def test_a_machine_that_is_announced_is_imported_for_its_format(install: Install):
    hand = WITH_MACHINE.format(name="hand", machine='Machine("tally", ("iron",), Executes()),')
    install("hand", "", text=hand, announced={"languages": "hands", "formats": "tally"})
    install("foot", "", text=WITH_MACHINE.format(name="foot", machine=""), announced={"languages": "foots"})
    install("eye", 'language("eyes", "iron")', devices=("iron",), announced={"languages": "eyes"})
    assert registry().machine(registry().target("foots:iron")) is not None
    assert registry().environment_for("foots") == {ONLY: "foot,hand"}
    assert "pk_eye" not in sys.modules


def test_where_one_backend_announces_nothing_all_are_imported(install: Install):
    install("counting", 'language("beads", "iron", "wood")', announced={"languages": "beads"})
    install("drawing", 'language("chalk", "slate")', devices=("slate",))
    assert names("chalk:slate,beads:iron") == ["chalk:slate", "beads:iron"]


@pytest.mark.parametrize("announced", [{"languages": "beads ink"}, {"languages": "ink"},
                                       {"languages": "beads", "formats": "tally"}])  # fmt: skip
def test_what_is_announced_and_is_not_there_breaks_its_backend(install: Install, announced: dict[str, str]):
    install("counting", 'language("beads", "iron", "wood")', announced=announced)
    (broken,) = registry().broken
    assert "announce" in broken.reason and "its manifest offers beads" in broken.reason
    with pytest.raises(UsageError, match="the backend counting could not be loaded"):
        targets("beads:iron")


def test_a_language_that_two_announce_is_the_first_ones(install: Install):
    for name in ("counting", "drawing"):
        install(name, 'language("beads", "iron", "wood")', announced={"languages": "beads"})
    assert registry().backend_of("beads").name == "counting"
    assert registry().environment_for("beads") == {ONLY: "counting"}
    (broken,) = registry().broken
    assert broken.name == "drawing"


def test_the_default_list_is_every_language_on_its_instruction_sets(two: Registry):
    assert [str(target) for target in two.default_targets()] == ["beads:iron", "beads:wood", "rods:wood", "chalk:slate"]


@pytest.mark.parametrize(("patterns", "wanted"), [
    ("all", ["beads:iron", "beads:wood", "rods:wood", "chalk:slate"]),
    ("beads:*", ["beads:iron", "beads:wood"]),
    ("*:wood", ["beads:wood", "rods:wood"]),
    ("chalk:slate, beads:iron", ["chalk:slate", "beads:iron"]),
    ("beads:iron,beads:*,beads:iron", ["beads:iron", "beads:wood"]),
    ("rods:wood-pro", ["rods:wood-pro"]),
])  # fmt: skip
def test_targets_by_name_and_pattern(two: Registry, patterns: str, wanted: list[str]):
    assert names(patterns) == wanted


def test_a_product_is_its_instruction_set_and_more(two: Registry):
    (product,) = targets("beads:iron-pro")
    assert (product.device.isa, product.device.product) == ("iron", "iron-pro")
    assert (product.device.count("beads"), product.device.value("clock")) == (10, 1.0)


@pytest.mark.parametrize(("patterns", "says", "advises"), [
    ("ink:slate", "unknown target language 'ink'", "beads, chalk, rods"),
    ("beads:glass", "beads has no device 'glass'", "iron"),
    ("rods:iron", "rods has no device 'iron'", "wood"),
    ("beads", "beads has no device ''", "iron"),
    ("*:glass", "no target matches '*:glass'", "beads:iron"),
    ("", "no target was named", "--targets"),
    (" , ", "no target was named", "--targets"),
])  # fmt: skip
def test_a_target_that_is_not_there_is_bad_usage(two: Registry, patterns: str, says: str, advises: str):
    with pytest.raises(UsageError) as caught:
        targets(patterns)
    assert says in caught.value.message and advises in caught.value.hint


@pytest.mark.parametrize(("arguments", "reason"), [
    ({"languages": 'language("ink", "slate")', "devices": ()}, "without describing them"),
    ({"languages": "", "devices": ("slate",)}, "offers no language"),
    ({"languages": 'language("ink", "slate")', "devices": ("slate",), "more": ", version=99"}, "manifest version 99"),
    ({"languages": 'language("beads", "slate")', "devices": ("slate",)}, "beads is offered by another backend"),
    ({"languages": "", "text": "backend = 3"}, "is a int, not a portakern.backend.Backend"),
    ({"languages": "", "text": "import no_such_module"}, "ModuleNotFoundError"),
    ({"languages": "", "text": "x = ("}, "SyntaxError"),
])  # fmt: skip
def test_a_broken_backend_is_reported_and_hides_no_other(install: Install, arguments: dict[str, str], reason: str):
    install("counting", 'language("beads", "iron", "wood"), language("rods", "wood")')
    install("ruin", **arguments)
    assert [backend.name for backend in registry().backends] == ["counting"]
    (broken,) = registry().broken
    assert broken.name == "ruin" and reason in broken.reason
    assert names("rods:*") == ["rods:wood"]


def test_an_unknown_language_may_belong_to_a_broken_backend(install: Install):
    install("ruin", "", text="import no_such_module")
    with pytest.raises(UsageError, match=r"the backend ruin could not be loaded: ModuleNotFoundError"):
        targets("ink:slate")


def test_a_device_description_that_cannot_be_read_breaks_its_backend_alone(install: Install, tmp_path: Path):
    install("counting", 'language("beads", "iron", "wood")')
    install("ruin", 'language("ink", "slate")', devices=("slate",))
    (tmp_path / "pk_ruin" / "devices" / "slate.toml").write_text('name = "slate"')
    registry.cache_clear()
    (broken,) = registry().broken
    assert "slate.toml cannot be read" in broken.reason


def test_in_tree_backends_come_through_the_same_door():
    entries = {entry.name: entry.value for entry in importlib.metadata.entry_points(group="portakern.backends")}
    registry.cache_clear()
    found = {backend.name for backend in registry().backends} | {fault.name for fault in registry().broken}
    assert set(entries) == found


# ---- machines ------------------------------------------------------------------------------------------------------------

WITH_MACHINE = """
from pathlib import Path
from portakern.backend import Availability, Backend, Language, Machine

class Executes:
    evidence = "simulated"
    def available(self, target):
        return Availability(target.device.isa == "iron", "counts on its fingers")

def language(name, *targets):
    return Language(name, name, targets, None, None, format=lambda device: "tally")

backend = Backend({name!r}, (language("{name}s", "iron", "wood"),), Path(__file__).parent / "devices",
                  machines=({machine}))
"""


def test_a_machine_serves_languages_of_other_backends(install: Install):
    install("hand", "", text=WITH_MACHINE.format(name="hand", machine='Machine("tally", ("iron",), Executes()),'))
    install("foot", "", text=WITH_MACHINE.format(name="foot", machine=""))
    found = registry()
    assert not found.broken
    (machine,) = next(b for b in found.backends if b.name == "hand").machines
    assert found.machine(found.target("foots:iron")) is machine is found.machine(found.target("hands:iron"))
    assert found.machine(found.target("foots:wood")) is None
    target = found.target("foots:iron-pro")
    assert steps.runner_for(found.language("foots"), target) == ("machine", "")
    assert steps.runner_part(found.language("foots"), target, "machine") is machine.simulator


def test_a_language_that_makes_another_format_has_no_machine(install: Install):
    install("hand", "", text=WITH_MACHINE.format(name="hand", machine='Machine("tally", ("iron",), Executes()),'))
    install("eye", 'language("eyes", "iron")', devices=("iron",))
    found = registry()
    assert found.machine(found.target("eyes:iron")) is None and found.estimator(found.target("eyes:iron")) is None


def test_a_machine_that_is_offered_twice_is_refused(install: Install):
    text = 'Machine("tally", ("iron",), Executes()),'
    install("hand", "", text=WITH_MACHINE.format(name="hand", machine=text))
    install("zeal", "", text=WITH_MACHINE.format(name="zeal", machine=text))
    (broken,) = registry().broken
    assert broken.name == "zeal" and "tally of iron is offered twice" in broken.reason


def test_a_machine_must_do_something(install: Install):
    install("hand", "", text=WITH_MACHINE.format(name="hand", machine='Machine("tally", ("iron",)),'))
    (broken,) = registry().broken
    assert "neither simulates nor estimates" in broken.reason
