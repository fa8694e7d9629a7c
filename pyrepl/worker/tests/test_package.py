"""The package as a whole: it can be imported, and travels as it is."""

from __future__ import annotations

import ast
import importlib
import sys
import unittest

from .owner import sources

TYPES_ONLY = ("bootstrap.py", "protocols.py")


def imports(tree: ast.Module) -> set[str]:
    """Return the modules of ours that a module imports when it is loaded or runs."""
    found = set()
    def for_types(node: ast.stmt) -> bool:
        return isinstance(node, ast.If) and isinstance(node.test, ast.Name)

    body = [node for node in tree.body if not for_types(node)]
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found.update([node.module] if node.module else [alias.name for alias in node.names])
    return found


class TestPackage(unittest.TestCase):
    trees: dict[str, ast.Module]

    @classmethod
    def setUpClass(cls) -> None:
        cls.trees = {name: ast.parse(text) for name, text in sources().items()}

    def test_modules_import_plainly(self) -> None:
        for name in self.trees:
            if name not in TYPES_ONLY:
                importlib.import_module("worker." + name[:-len(".py")])

    def test_imports_form_no_circle(self) -> None:
        graph = {name[:-len(".py")]: imports(tree) for name, tree in self.trees.items()}
        order: list[str] = []

        def visit(name: str, path: tuple[str, ...]) -> None:
            self.assertNotIn(name, path, "a circle")
            if name not in order:
                for each in graph[name]:
                    visit(each, path + (name,))
                order.append(name)

        for name in graph:
            visit(name, ())
        self.assertEqual(set(order), set(graph))

    def test_no_state_is_rebound(self) -> None:
        for name, tree in self.trees.items():
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
            self.assertEqual(found, [], name)

    def test_plain_imports_leave_no_trace(self) -> None:
        from .. import loader
        self.assertEqual(loader.finders, [])
        self.assertFalse([f for f in sys.meta_path if type(f).__module__.startswith("worker.")])
