"""An edited file is read as if it were read for the first time, at less cost."""

import ast
import types
from typing import Any, List, Tuple

import pytest
from paramedic.recovery import reread, source

TEXT = """\
import math

@staticmethod
def first(a):
    return [b for b in a]

class Middle:
    size = 3

    def grow(self, by=1):
        def inner():
            return self.size + by
        return inner()

    @property
    def area(self):
        return self.size ** 2

def last(x):
    with open(x) as one, open(x) as two:
        yield one, two

LIMIT = first([1])
"""


def described(made: source.Source) -> List[Tuple[Any, ...]]:
    """All that others ask of a function."""
    return [
        (
            one.key, one.qualname, one.class_name, one.kind, one.cells, one.code.co_firstlineno,
            one.code.co_code, list(one.code.co_positions()), ast.dump(one.node),
        )
        for one in made.functions[1:]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "is_partial"),
    [
        ("return self.size ** 2", "return self.size ** 3", True),
        ("        return inner()\n", "        n = inner()\n\n        return n\n", True),
        ("    return [b for b in a]\n", "    return a\n", True),
        ("    with open(x) as one, open(x) as two:\n", "    for one, two in x:\n", True),
        ("@staticmethod\ndef first", "def first", False),
        ("def last(x):", "def between():\n    pass\n\ndef last(x):", False),
        ("import math\n", "import math, os\n", False),
        ("LIMIT = first([1])", "LIMIT = 2", False),
        ("\nclass Middle:", "\n# a comment\nclass Middle:", False),
    ],
)
def test_it_is_what_a_first_reading_gives(old: str, new: str, is_partial: bool) -> None:
    before = source.parse("file.py", TEXT.encode())
    text = TEXT.replace(old, new).encode()
    assert text != TEXT.encode()
    made = reread.parse(before, text)
    assert described(made) == described(source.parse("file.py", text))
    assert (reread.changed_lines(made) is not None) == is_partial
    # And once more, from there.
    assert described(reread.parse(made, TEXT.encode())) == described(before)


@pytest.mark.parametrize("line", ["return +", "continue", "nonlocal nothing", "x = await y"])
def test_what_the_compiler_refuses_is_refused(line: str) -> None:
    before = source.parse("file.py", TEXT.encode())
    with pytest.raises(SyntaxError):
        reread.parse(before, TEXT.replace("return self.size ** 2", line).encode())


def test_only_what_differs_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    before = source.parse("file.py", TEXT.encode())
    made = reread.parse(before, TEXT.replace("** 2", "** 3").encode())
    same: List[types.CodeType] = [one.code for one in before.functions]
    assert [one.name for one in made.functions if one.code not in same] == ["<module>", "area"]
    lines = reread.changed_lines(made)
    assert lines is not None
    assert lines.new == lines.old == (7, 17)
