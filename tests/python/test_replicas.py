"""Fingerprints of copies: which steps, of what, and the lines that may treat ranks differently."""

import textwrap
from pathlib import Path
from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramedic.adapters.torch.rank_branches import find
from paramedic.adapters.torch.replicas import MAX_INTERVAL, fold, next_on_grid, on_grid

COARSE = st.integers(0, 14).map(lambda power: 1 << power)


@given(st.integers(0, 1 << 20), COARSE)
def test_the_next_step_of_the_grid_is_the_first_on_it(step: int, coarse: int) -> None:
    found = next_on_grid(step, coarse)
    assert found >= step
    assert on_grid(found, coarse)
    between = range(step, min(found, step + 300))
    assert not any(on_grid(skipped, coarse) for skipped in between)


@given(st.integers(0, 1 << 20), COARSE, COARSE)
def test_ranks_of_different_budgets_meet_at_the_steps_of_the_poorer_one(
    step: int, one: int, other: int
) -> None:
    if on_grid(step, max(one, other)):
        assert on_grid(step, min(one, other))


def test_the_grid_begins_dense_and_ends_at_its_widest_interval() -> None:
    assert all(on_grid(step, 1) for step in range(64))
    late = [step for step in range(1 << 17, (1 << 17) + 5000) if on_grid(step, 1)]
    assert {b - a for a, b in zip(late, late[1:])} == {MAX_INTERVAL}


@given(st.lists(st.integers(1, (1 << 64) - 1), min_size=2, max_size=6, unique=True))
def test_a_fold_depends_on_the_order_and_is_zero_for_zeros_only(numbers: List[int]) -> None:
    assert fold(numbers) != fold(numbers[::-1])
    assert fold(numbers)
    assert fold([0] * len(numbers)) == 0


def lines_of(tmp_path: Path, text: str, values: Dict[str, Any]) -> Dict[int, Dict[str, Any]]:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text).lstrip())
    return {branch["where"]["line"]: branch for branch in find(str(path), values)}


def test_a_function_of_the_file_that_is_called_for_one_rank_is_told_by_what_it_does(
    tmp_path: Path,
) -> None:
    text = """
        class Average:
            def copy_to(self, model):
                model.load_state_dict(self.shadow)
            def describe(self):
                return torch.rand(1)
        for step in range(9):
            if rank == 0 and step % 5 == 3:
                average.copy_to(model)
                average.describe()
            average.copy_to(model)
    """
    found = lines_of(tmp_path, text, {"rank": 0, "step": 0})
    assert list(found) == [8]
    assert found[8]["kinds"] == ["weights"]
    # The step changes: at another one the condition holds.
    assert found[8]["taken"] is True
    assert lines_of(tmp_path, text, {"rank": 1, "step": 3})[8]["taken"] is False


def test_a_condition_that_another_one_may_replace_is_not_known_to_fail(tmp_path: Path) -> None:
    text = """
        if rank == 0 or step == 9:
            net.weight.mul_(2)
    """
    assert lines_of(tmp_path, text, {"rank": 1, "step": 3})[2]["taken"] is None
    assert lines_of(tmp_path, text, {"rank": 0, "step": 3})[2]["taken"] is True


def test_a_flag_that_is_off_keeps_its_branch_out(tmp_path: Path) -> None:
    text = """
        if rank == 0 and resume:
            net.load_state_dict(state)
    """
    assert lines_of(tmp_path, text, {"rank": 0, "resume": False})[2]["taken"] is False


def test_statements_under_a_condition_on_the_rank_are_told_with_whom_it_holds_for(
    tmp_path: Path,
) -> None:
    text = """
        if rank == world - 1:
            x = torch.randn(4)
        elif rank:
            net.weight.mul_(2)
        else:
            clip_grad_norm_(net.parameters(), 1)
        if args.rank == 0 and step > 5:
            net.load_state_dict(state)
        if not dist.get_rank():
            print("no change")
        plain.add_(1)
    """
    values = {"rank": 2, "world": 4, "args.rank": 0}
    found = lines_of(tmp_path, text, values)
    assert {line: (b["kinds"], b["taken"]) for line, b in found.items()} == {
        2: (["random"], False),
        4: (["weights"], True),
        6: (["gradient"], False),
        8: (["weights"], True),
    }
    assert all(branch["of_rank"] for branch in found.values())


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("torch.manual_seed(seed + rank)", ["random"]),
        ("opt = Adam(net.parameters(), lr=0.1 * (1 + rank))", ["rate"]),
        ("group['lr'] = 0.1 if rank else 0.2", ["rate"]),
        ("p.grad *= rank", ["gradient"]),
        ("p.data = p.data * local_rank", ["weights"]),
        ("print(rank, x.mean())", None),
    ],
)
def test_statements_that_take_the_rank_are_told_by_what_they_do(
    tmp_path: Path, line: str, kinds: Any
) -> None:
    found = lines_of(tmp_path, line, {})
    assert (found[1]["kinds"] if found else None) == kinds


def test_changes_of_gradients_in_a_loop_are_told_without_a_rank(tmp_path: Path) -> None:
    text = """
        def train():
            scheduler.step(loss)
            for batch in loader:
                p.grad.mul_(0.5)
                scheduler.step(loss)
                x.add_(1)
                all_reduce(p.grad)
                y = wrapped.module(x)
    """
    found = lines_of(tmp_path, text, {})
    assert {line: branch["kinds"] for line, branch in found.items()} == {
        4: ["gradient"],
        5: ["rate"],
        7: ["gradient"],
        8: ["bypass"],
    }
    assert not any(branch["of_rank"] for branch in found.values())


@pytest.mark.parametrize("text", ["", "if rank:\n", "\0", "x = (\n"])
def test_files_that_are_no_python_have_no_lines(tmp_path: Path, text: str) -> None:
    assert lines_of(tmp_path, text, {}) == {}
