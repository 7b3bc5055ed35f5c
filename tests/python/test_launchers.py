"""What the rank of a process is, by its launcher."""

from typing import Dict

import pytest
from paramedic import _probe


@pytest.mark.parametrize(
    "launcher",
    [
        {"RANK": "3", "WORLD_SIZE": "8"},  # torchrun, Ray Train, the operators of Kubernetes
        {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"},
        {"PMI_RANK": "3", "PMI_SIZE": "8"},
        {"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "8"},
        {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "8"},
        {"JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_SIZE": "8"},
        {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "8"},
        {"SLURM_PROCID": "3", "SLURM_NTASKS": "8"},
        # One task of Slurm on each node starts torchrun: the nearer one counts.
        {"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
    ],
)
def test_every_launcher_tells_the_rank_in_its_own_words(
    launcher: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_probe.os, "environ", launcher)
    assert _probe.rank_from_env() == (3, 8)


def test_a_process_without_a_launcher_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in ({}, {"RANK": "3"}, {"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "train-2"}):
        monkeypatch.setattr(_probe.os, "environ", environment)
        assert _probe.rank_from_env() == (0, 1)
