"""The three demo runs: the healthy one is quiet, the two faults are named with layer and line."""

from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"


def loud(report):
    return [f for f in report["findings"] if f["severity"] in ("warning", "error")]


def line_of(script, text):
    lines = (DEMO / script).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_healthy_run_has_no_warning_and_no_error(program, python):
    assert program.run("healthy", [python, str(DEMO / "healthy.py")]).returncode == 0
    report = program.report("healthy")
    assert report["health"] == "healthy"
    assert loud(report) == []
    assert report["run"]["overhead_percent"] is not None


def test_the_vanishing_gradient_is_named_with_layer_and_line(program, python):
    program.run("deep", [python, str(DEMO / "deep_sigmoid.py")])
    report = program.report("deep")
    finding = next(f for f in report["findings"] if f["id"] == "vanishing_gradient")
    assert report["health"] == "problems"
    assert report["run"]["steps"] == 12 * 29  # 12 epochs of 1,797 digits by 64
    assert finding["severity"] == "error"
    assert finding["tensor"] == "0.weight"
    assert Path(finding["where"]["file"]).name == "deep_sigmoid.py"
    assert finding["where"]["line"] == line_of("deep_sigmoid.py", "nn.Linear(64, 64)")


def test_the_nan_is_named_with_module_and_line(program, python):
    program.run("nan", [python, str(DEMO / "nan_in_own_code.py")])
    finding = next(f for f in program.report("nan")["findings"] if f["id"] == "nan_origin")
    assert finding["severity"] == "error"
    assert Path(finding["where"]["file"]).name == "nan_in_own_code.py"
    assert finding["where"]["line"] == line_of("nan_in_own_code.py", "torch.log(probability")
    assert finding["where"]["function"] == "negative_log_likelihood"
    assert 0 < finding["step"] <= 24
