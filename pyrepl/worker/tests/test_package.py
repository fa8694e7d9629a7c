"""The package as a whole: it can be imported, and travels as it is."""

from __future__ import annotations

import ast
import importlib
import sys
import unittest

from .owner import sources

TYPES_ONLY = ("bootstrap.py", "protocols.py")


def imports(tree: ast.Module) -> set[str]:
    """Return the modules of ours that a module imports: as it loads, as it runs, or for a type."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found.update([node.module] if node.module else [alias.name for alias in node.names])
    return found


class TestPackage(unittest.TestCase):
    trees: dict[str, ast.Module]
    graph: dict[str, set[str]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.trees = {name: ast.parse(text) for name, text in sources().items()}
        cls.graph = {name[:-len(".py")]: imports(tree) for name, tree in cls.trees.items()}

    def test_modules_import_plainly(self) -> None:
        for name in self.trees:
            if name not in TYPES_ONLY:
                importlib.import_module("worker." + name[:-len(".py")])

    def test_imports_form_no_circle(self) -> None:
        circles: list[str] = []
        order: list[str] = []

        def visit(name: str, path: list[str]) -> None:
            if name in path:
                circles.append(" -> ".join(path[path.index(name):] + [name]))
            elif name not in order:
                for each in sorted(self.graph[name]):
                    visit(each, path + [name])
                order.append(name)

        for name in self.graph:
            visit(name, [])
        self.assertEqual(circles, [])
        self.assertEqual(set(order), set(self.graph))

    def test_imports_run_down_the_list_in_the_package(self) -> None:
        lines = (importlib.import_module("worker").__doc__ or "").split("\n")
        listed = [name for line in lines if line.startswith("    ")
                  for name in line.strip().split("  ")[0].split(", ")]
        self.assertEqual(sorted([*listed, "bootstrap"]), sorted(self.graph))
        for i, name in enumerate(listed):
            self.assertLessEqual(self.graph[name], set(listed[i + 1:]), name)

    def test_no_state_is_rebound(self) -> None:
        for name, tree in self.trees.items():
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
            self.assertEqual(found, [], name)

    def test_plain_imports_leave_no_trace(self) -> None:
        from .. import loader
        self.assertEqual(loader.finders, [])
        self.assertFalse([f for f in sys.meta_path if type(f).__module__.startswith("worker.")])
