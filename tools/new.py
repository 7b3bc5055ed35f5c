#!/usr/bin/env python3
"""Writes the skeleton of a rule, command or collector and its line in the list.

    tools/new.py rule loss_spike
    tools/new.py command compare
    tools/new.py collector network

The skeleton compiles and passes its goldens (a rule that never fires needs its `fires` case filled
in); what is left to write is the logic and the texts in capitals.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parent.parent

RULE = """\
// WHAT IT LOOKS FOR, IN ONE LINE.

#include "rules/rule.h"

namespace paramedic::rules {{

namespace {{

class {pascal} : public Rule {{
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow&) override {{}}
}};

}}  // namespace

RuleEntry {name}_rule() {{
  return {{{{"{name}", Severity::kWarning, "TITLE",
           "WHEN IT FIRES, WITH ITS SOURCE", "WHAT TO DO", {{}}}},
          &make_rule<{pascal}>}};
}}

}}  // namespace paramedic::rules
"""

RULE_CASE = """\
# {what}
event fit_started {{"models": 1, "optimizers": 1}}
module 0 Linear train.py:19 order=0
parameter 0.weight 64x64 module=0
repeat 0 100 every=10
  stats 0.weight gradient mean_abs=0.01
  scalar loss/train.py:35 2.3->0.5 noise=0.05
end
=== findings
"""

COMMAND = """\
#include "cli/command.h"

namespace paramedic::cli {{
namespace {{

Result<int> {name}(const Arguments&, Console& console) {{
  console.out << "\\n";
  return 0;
}}

}}  // namespace

Command {name}_command() {{
  Command command;
  command.name = "{name}";
  command.summary = "ONE LINE FOR THE LIST";
  command.about = "WHAT IT DOES, IN A PARAGRAPH.";
  command.run = {name};
  return command;
}}

}}  // namespace paramedic::cli
"""

COLLECTOR = """\
// WHAT IT SAMPLES, AND WHERE THE FIGURES COME FROM.

#include "supervise/collectors/collector.h"

namespace paramedic::supervise {{
namespace {{

class {pascal}Collector : public Collector {{
 public:
  void sample(int64_t, pid_t, store::RowSink&) override {{}}
}};

}}  // namespace

std::unique_ptr<Collector> make_{name}_collector(const CollectorRoots&) {{
  return std::make_unique<{pascal}Collector>();
}}

}}  // namespace paramedic::supervise
"""


def write(path: Path, text: str) -> None:
    if path.exists():
        sys.exit(f"{path.relative_to(ROOT)} exists already\n  hint: choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")


def add_line(path: Path, line: str) -> None:
    path.write_text(path.read_text().rstrip("\n") + f"\n{line}\n")
    print(f"added {line} to {path.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("rule", "command", "collector"))
    parser.add_argument("name", help="snake_case; a rule's id is fixed for ever")
    options = parser.parse_args()
    name: str = options.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        parser.error(f"{name} is not snake_case")
    words: Dict[str, str] = {
        "name": name,
        "pascal": "".join(word.capitalize() for word in name.split("_")),
    }
    if options.kind == "rule":
        write(ROOT / f"src/rules/builtin/{name}.cc", RULE.format(**words))
        cases = ROOT / "tests/golden/rules" / name
        write(cases / "fires.txt", RULE_CASE.format(what="WHAT GOES WRONG HERE."))
        write(cases / "quiet.txt", RULE_CASE.format(what="WHAT LOOKS LIKE IT BUT IS HEALTHY."))
        add_line(ROOT / "src/rules/builtin/list.inc", f"X({name})")
    elif options.kind == "command":
        write(ROOT / f"src/cli/{name}.cc", COMMAND.format(**words))
        add_line(ROOT / "src/cli/list.inc", f"X({name})")
    else:
        write(ROOT / f"src/supervise/collectors/{name}.cc", COLLECTOR.format(**words))
        add_line(ROOT / "src/supervise/collectors/list.inc", f"PARAMEDIC_COLLECTOR({name})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
