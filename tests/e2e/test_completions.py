"""Completions, typed at real shells on a terminal."""

import shutil

import pytest
from conftest import PARAMEDIC, Program
from terminal import Terminal

TAB = b"\t"
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, program: Program) -> Terminal:
    name, *options = SHELLS[request.param]
    program.env["PS1"] = "ready> "
    program.env["PATH"] = f"{PARAMEDIC.parent}:{program.env['PATH']}"
    terminal = Terminal(program, *options, start=shutil.which(name))
    terminal.until(b"ready> ")
    terminal.type(f'eval "$(paramedic completions {request.param})"; echo loa""ded\r'.encode())
    terminal.until(b"loaded")
    terminal.until(b"ready> ")
    return terminal


@pytest.mark.parametrize(
    "typed, completed",
    [
        (b"paramedic diag", b"nose"),
        (b"paramedic cluster env", b"-diff"),
        (b"paramedic cluster lint --js", b"on"),
        (b"paramedic rules replay --di", b"r"),
    ],
)
def test_a_word_is_completed_where_it_stands(
    shell: Terminal, typed: bytes, completed: bytes
) -> None:
    with shell:
        shell.type(typed + TAB)
        shell.until(typed + completed)
