"""Run pip in an environment that has none.

This is the package pip of an environment that async-repl made, until a real pip replaces it. The
pip that runs is that of the Python which the environment was made from, or else the copy that this
Python carries. It installs into this environment.
"""

import glob
import os
import runpy
import sys
import sysconfig
from importlib.machinery import PathFinder


def outside():
    """Return a directory or a wheel with pip that is not in this environment, or None."""
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix, "installed_base": sys.base_prefix}
    if sys.prefix != sys.base_prefix:
        debian = os.path.join(sys.base_prefix, "lib", "python3", "dist-packages")
        for place in sysconfig.get_path("purelib", vars=base), debian:
            if os.path.isfile(os.path.join(place, "pip", "__main__.py")):
                return place
    try:
        import ensurepip
    except ImportError:
        return None
    carried = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
    for place in carried, getattr(ensurepip, "_WHEEL_PKG_DIR", None) or carried:
        wheels = glob.glob(os.path.join(glob.escape(place), "pip-*.whl"))
        if wheels:
            return wheels[0]
    return None


def run():
    place = outside()
    if place is None:
        sys.exit("%s has no pip, nor has the Python that it was made from; install uv, or pip for it "
                 "(Debian, Ubuntu: apt install python3-pip)" % sys.executable)

    class Finder:
        """Find pip in its place and nothing else there."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, [place], target) if name == "pip" else None

    sys.meta_path.insert(0, Finder)
    sys.modules.pop("pip", None)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run()
