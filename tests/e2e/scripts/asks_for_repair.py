"""Crashes and asks its agent what to do, as recovery does, but carries nothing out itself.

`python asks_for_repair.py [REFUSALS]`: so many repairs are refused before one is done.
"""

import sys

from paramedic.recovery import dialogue
from paramedic.recovery.crash import Crash, ProjectFrame


def share(total, parts):
    try:
        return total / parts
    except ZeroDivisionError as error:
        frame = sys._getframe()
        place = ProjectFrame(frame, __file__, "share", error.__traceback__.tb_lineno, 8, False)
        return repaired(Crash(error, [place], "MainThread", 0))


def repaired(crash):
    decider = dialogue.connect()
    refusals = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    while True:
        repair = decider.ask(crash)
        if repair is None or repair.kind == "abort":
            raise crash.exception
        if refusals == 0:
            decider.resumed(crash, repair, {"resume": 1.5})
            return repair.kind
        refusals -= 1
        decider.refused(crash, repair, f"{repair.kind} is refused {refusals} times more")


print("share", share(10, 0))
