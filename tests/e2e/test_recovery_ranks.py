"""Four gloo ranks: one crashes and is repaired while the others wait; all meet the same fault."""

import shutil
from pathlib import Path

import pytest
from conftest import Program
from test_recovery_dialogue import Waiting

SCRIPT = Path(__file__).with_name("jobs") / "four_ranks.py"
FIX = """--- a/four_ranks.py
+++ b/four_ranks.py
@@ -14,4 +14,4 @@

 def share(rank, step):
     parts = 0 if step == 5 and rank in CRASHING else 4
-    return 1.0 / parts
+    return 1.0 / (parts or 4)
"""


def ranks(python, crashing):
    one = f"WORLD_SIZE=4 {python} {SCRIPT.name} {crashing}"
    each = " & ".join(f"RANK={rank} {one}" for rank in range(4))
    return ["sh", "-c", f"rm -f rendezvous; {each} & wait"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory, python):
    """What the four ranks print without a crash, sorted."""
    folder = tmp_path_factory.mktemp("plain")
    shutil.copy(SCRIPT, folder)
    done = Program(folder, folder).plain(ranks(python, "9"))
    assert len(done.stdout.splitlines()) == 4, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("crashing", ["2", "0,1,2,3"], ids=["one", "all"])
def test_one_repair_lets_all_ranks_finish(program, python, weights, crashing):
    shutil.copy(SCRIPT, program.folder)
    (program.folder / "fix.patch").write_text(FIX)
    numbers = [int(rank) for rank in crashing.split(",")]
    with Waiting(program, ranks(python, crashing)) as job:
        job.until(
            lambda report: (
                [one["rank"] for one in report["run"]["ranks"] if one["status"] == "paused"]
                == numbers
            )
        )
        code, answer = job.repair("--apply", str(program.folder / "fix.patch"), "--json")
        assert (code, answer["kind"]) == (0, "edit"), answer
        code, out, err = job.end()
    assert code == 0, err.decode()
    assert sorted(out.splitlines()) == weights
    repairs = job.report()["repairs"]
    assert sorted(one["rank"] for one in repairs) == numbers
    assert {one["patch"] for one in repairs} == {"repairs/1.patch"}
