"""What a rank tells of the environment that it runs in."""

import sys
from types import ModuleType
from typing import Any, Dict, List, Tuple

import pytest

torch = pytest.importorskip("torch")

from paramedic.adapters.common.facts import Facts  # noqa: E402
from paramedic.adapters.common.session import Tap  # noqa: E402
from paramedic.adapters.common.source import Source  # noqa: E402


class Session:
    """What the tap uses of a session."""

    def __init__(self) -> None:
        self.torch: Any = torch
        self.events: List[Tuple[str, Dict[str, Any]]] = []

    def tap(self, name: str) -> Tap:
        return Tap(self, name)  # type: ignore[arg-type]

    def tell(self, kind: str, fields: Dict[str, Any]) -> None:
        self.events.append((kind, fields))

    def not_captured(self, what: str, why: str) -> None:
        raise AssertionError(f"{what}: {why}")


def test_facts_have_versions_and_each_line_of_the_own_modules_and_are_told_once(
    tmp_path, monkeypatch
):
    path = tmp_path / "own_module.py"
    path.write_text("a = 1\nb = 2\n")
    module = ModuleType("own_module")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "own_module", module)
    session = Session()
    versions = {"torch": torch.__version__}
    tap = Facts(session, Source(torch), lambda: versions)  # type: ignore[arg-type]
    tap.tell()
    tap.tell()
    ((kind, facts),) = session.events
    assert kind == "facts"
    assert facts["values"]["torch"] == torch.__version__
    assert facts["modules"]["own_module"]["file"] == str(path)
    assert len(facts["modules"]["own_module"]["lines"]) == 8
