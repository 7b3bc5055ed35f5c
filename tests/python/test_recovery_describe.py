"""A crash as data: short, bounded, and without running the job's code."""

import sys

import numpy as np
import pytest
import torch
from paramedic.recovery import describe, dialogue
from paramedic.recovery.crash import Crash, ProjectFrame


class Hostile:
    """Whoever touches it learns so."""

    def _fail(self, *args):
        raise AssertionError("the job's code was run")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __bool__ = __getitem__ = _fail
    __hash__ = None


class HostileList(list):
    def __iter__(self):
        raise AssertionError("the job's code was run")

    __repr__ = __len__ = __iter__


def crash_here(error, frames=1):
    frame = sys._getframe(1)
    place = ProjectFrame(frame, frame.f_code.co_filename, "here", frame.f_lineno, 4, False)
    try:
        raise error
    except BaseException as raised:
        return Crash(raised, [place] * frames, "MainThread", 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-0.5, "-0.5"),
        (None, "None"),
        ("it's", '"it\'s"'),
        (b"\x00", "b'\\x00'"),
        ([1, [2, [3, [4]]]], "[1, [2, [3, <list of 1>]]]"),
        ((1,), "(1)"),
        ({"a": {1}}, "{'a': {1}}"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, … 100 in all]"),
        (1 << 5000, "<int of 5001 bits>"),
        (torch.zeros(2, 3), "float32 [2, 3] cpu [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]"),
        (torch.tensor([1.0, float("nan"), float("inf")] * 3), "float32 [9] NaN Inf cpu"),
        (torch.nn.Parameter(torch.zeros(9)), "float32 [9] cpu grad"),
        (torch.zeros(9, dtype=torch.int64), "int64 [9] cpu"),
        (np.array([1.0, np.nan] * 5), "float64 [10] NaN"),
        (np.float32(0.5), "0.5"),
    ],
)
def test_values_are_short_and_tell_what_decides_most_errors(value, text):
    assert describe.value_text(value) == text


@pytest.mark.parametrize("value", [Hostile(), HostileList([1]), [Hostile()], {1: HostileList()}])
def test_the_code_of_a_value_is_never_run(value):
    assert "<" in describe.value_text(value)


def test_values_that_hold_themselves_and_long_ones_have_an_end():
    endless = []
    endless.append(endless)
    assert describe.value_text(endless) == "[[[<list of 1>]]]"
    assert len(describe.value_text("x" * 10_000_000)) <= describe.MAX_VALUE
    assert len(describe.value_text({str(i) * 50: "y" * 100 for i in range(1000)})) <= 120


def test_names_of_the_failing_line_come_first_and_those_of_modules_are_hidden():
    __version = 3  # noqa: F841
    aardvark = Hostile()  # noqa: F841
    zebra = torch.zeros(2)
    crash = crash_here(ValueError(zebra))
    variables = describe.crash_fields(crash)["frames"][0]["variables"]
    assert [one["name"] for one in variables] == ["crash", "zebra", "aardvark"]
    assert [one["type"] for one in variables][1] == "torch.Tensor"


def test_an_exception_is_told_with_its_bases_number_and_status():
    fields = describe.crash_fields(crash_here(FileNotFoundError(2, "none", "/a")))
    assert fields["exception"] == "FileNotFoundError"
    assert fields["bases"] == ["FileNotFoundError", "OSError", "Exception", "BaseException"]
    assert (fields["errno"], fields["http_status"]) == (2, None)
    assert "FileNotFoundError: [Errno 2] none: '/a'" in fields["traceback"]

    class Response:
        status_code = 503

    error = RuntimeError("no")
    error.response = Response()
    assert describe.crash_fields(crash_here(error))["http_status"] == 503


def test_an_exception_whose_text_fails_is_told_all_the_same():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    fields = describe.crash_fields(crash_here(Mute()))
    assert "Mute" in fields["exception"]
    assert "cannot be made" in fields["message"]


def test_a_report_always_fits_into_a_message():
    big = {f"name_{i}": "v" * 1000 for i in range(50)}
    locals().update(big)
    crash = crash_here(ValueError("ö" * 100_000), frames=400)
    assert len(dialogue._payload(dialogue._report(crash))) <= dialogue.MAX_REPORT
    assert dialogue._report(crash)["frames"]


def test_the_checksum_is_that_of_the_format():
    assert dialogue.crc32c(b"123456789") == 0xE3069283
    assert dialogue.crc32c(b"6789", dialogue.crc32c(b"12345")) == 0xE3069283
