"""What is written about the package is so: the stub of its native half, and docs/python.md."""

import ast
import inspect
import re
import unittest

from served import PACKAGE

import millpond
from millpond import _native

GUIDE = (PACKAGE.parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
STUB = ast.parse((PACKAGE / "millpond" / "_native.pyi").read_text(encoding="utf-8"))


def stubbed(class_):
    """The parameters of each method in the stub, those of the longest overload."""
    methods = {}
    for method in class_.body:
        if isinstance(method, ast.FunctionDef) and "property" not in map(ast.unparse, method.decorator_list):
            if method.name.startswith("__") and method.name != "__init__":
                continue
            named = [argument.arg for argument in method.args.args + method.args.kwonlyargs if argument.arg != "self"]
            methods[method.name] = max(methods.get(method.name, []), named, key=len)
    return methods


def native(class_):
    """The parameters of each method in the native half."""
    public = {name: getattr(class_, name) for name in vars(class_) if not name.startswith("_")}
    methods = {name: method for name, method in public.items() if callable(method)}
    if class_.__text_signature__ is not None:
        methods["__init__"] = class_
    return {name: [n for n in inspect.signature(method).parameters if n != "self"] for name, method in methods.items()}


class Documents(unittest.TestCase):
    def test_the_stub_is_the_native_half(self):
        # A TypedDict is a dict to the native half.
        stubs = [node for node in STUB.body if isinstance(node, ast.ClassDef) and "TypedDict" not in map(ast.unparse, node.bases)]
        classes = {node.name: stubbed(node) for node in stubs}
        found = {name: native(getattr(_native, name)) for name in dir(_native) if inspect.isclass(getattr(_native, name))}
        self.assertEqual(classes, found)
        self.assertEqual(_native.VERSION, millpond.__version__)

    def test_the_guide_lists_the_options(self):
        listed = dict(re.findall(r"^\| `(\w+)` \| (\d+|None) \|", GUIDE, re.MULTILINE))
        for client in (millpond.Client, millpond.AsyncClient):
            parameters = inspect.signature(client).parameters.values()
            options = {one.name: str(one.default) for one in parameters if one.kind is one.KEYWORD_ONLY}
            self.assertEqual(listed, options)

    def test_the_guide_lists_the_errors(self):
        rows = re.findall(r"^\| `(\w+Error)`[^|]*\|[^|]*\|[^|]*\|([^|]*)\|$", GUIDE, re.MULTILINE)
        listed = {name: set(re.findall(r"`(\w+)`", attributes)) for name, attributes in rows}
        kinds = [kind for kind in vars(millpond).values() if inspect.isclass(kind) and issubclass(kind, millpond.Error)]
        found = {kind.__name__: set(kind.__annotations__) for kind in kinds if kind is not millpond.Error}
        self.assertEqual(listed, found)
