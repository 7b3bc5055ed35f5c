"""Attaches Paramedic to the processes of a run; does nothing in any other.

`paramedic run` puts this folder in front of PYTHONPATH. Every interpreter of the job imports this
file at its start, so it costs one look at the environment where PARAMEDIC_RUN is missing, imports
nothing that the interpreter has not loaded yet, takes its folder out of `sys.path` again, and
chains to the `sitecustomize` that it hides.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _PackageFinder:
    """Finds the package `paramedic` of this run, and nothing else, without an entry in sys.path."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "paramedic":
            return None
        # The frozen modules are always loaded; `importlib.machinery` would have to be imported.
        from _frozen_importlib_external import spec_from_file_location

        package = os.path.dirname(_FOLDER)
        return spec_from_file_location(
            name,
            os.path.join(package, "__init__.py"),
            submodule_search_locations=[package],
        )


def _attach():  # type: () -> None
    # In front: another version in the job's own environment must not speak to this run's agent.
    sys.meta_path.insert(0, _PackageFinder)
    from paramedic import _import_hook

    _import_hook.install()
    if os.environ.get("PARAMEDIC_ON_CRASH") in ("auto", "wait"):
        from paramedic.recovery import loader

        loader.install()
        if os.environ.get("PARAMEDIC_INTERRUPT") == "ask":
            from paramedic.recovery import interrupt

            interrupt.install()


sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _FOLDER]
if os.environ.get("PARAMEDIC_RUN"):
    try:
        _attach()
    except Exception as _error:
        # The job goes on as if nobody watched; the agent sees that nothing attached.
        if os.environ.get("PARAMEDIC_DEBUG"):
            sys.stderr.write(f"paramedic: not attached: {_error!r}\n")

# The one that this file hides takes its place in sys.modules. Where there is none the ImportError
# goes up to `site`, which expects just that one, and the name stays unknown as in a plain start.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
