"""Crashes and asks its agent what to do, as recovery does, but carries nothing out itself.

`python asks_for_repair.py [EXCEPTION [REFUSALS]]`: raises the exception, an expression, and refuses
so many repairs before one is done.
"""

import sys
import traceback

from paramedic.recovery import dialogue
from paramedic.recovery.crash import Crash, ProjectFrame

EXCEPTION = sys.argv[1] if len(sys.argv) > 1 else "ZeroDivisionError('division by zero')"
REFUSALS = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def share(total, parts):
    try:
        raise eval(EXCEPTION)
    except Exception as error:
        frame = sys._getframe()
        place = ProjectFrame(frame, __file__, "share", error.__traceback__.tb_lineno, 8, False)
        return repaired(Crash(error, [place], "MainThread", 0))


def repaired(crash):
    decider = dialogue.connect()
    for refusals_left in range(REFUSALS, -1, -1):
        repair = decider.ask(crash)
        if repair is None or repair.kind == "abort":
            # As the exception would have ended it; raised, recovery itself would meet it.
            traceback.print_exception(crash.exception)
            sys.exit(1)
        if refusals_left == 0:
            decider.resumed(crash, repair, {"resume": 1.5})
            return repair.kind
        decider.refused(crash, repair, f"{repair.kind} is refused")


print(len(dialogue.earlier_edits()), "earlier edits, share", share(10, 0))
