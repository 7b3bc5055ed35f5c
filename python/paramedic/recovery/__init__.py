"""In-place recovery: a job that would end of an exception pauses, is repaired, and goes on.

The parts and how they meet are in docs/design/0008-in-place-recovery.md. Needs Python 3.11 or
newer: older ones do not tell the column at which a frame stands.
"""

import os

# The process in which recovery was installed; a child made by fork has another number.
process = os.getpid()
