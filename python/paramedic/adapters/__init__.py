"""The frameworks that can be watched, by the name of the module whose import attaches them.

An adapter is a module with `attach(framework_module)`. It is imported only when its framework was.
"""

import os
import sys

FRAMEWORKS = {
    "torch": "paramedic.adapters.torch",
    "torch._dynamo": "paramedic.recovery.dynamo",
    "torch.distributed._functional_collectives": "paramedic.adapters.torch.distributed",
    "torch.distributed.fsdp": "paramedic.adapters.torch.distributed",
    "tensorflow": "paramedic.adapters.tensorflow",
    "keras.src.optimizers.base_optimizer": "paramedic.adapters.tensorflow",
    "tf_keras.src.optimizers.optimizer": "paramedic.adapters.tensorflow",
    "tf_keras.src.optimizers.legacy.optimizer_v2": "paramedic.adapters.tensorflow",
}


def note_failure(name: str, error: BaseException) -> None:
    """An adapter could not attach: the job goes on, the agent sees that nothing attached."""
    if os.environ.get("PARAMEDIC_DEBUG"):
        sys.stderr.write(f"paramedic: {name} is not watched: {error!r}\n")
