"""What a piece of a program's syntax tree says: for the adapters and for recovery."""

import ast


def last_name(node: ast.AST) -> str:
    """`step` of `optimizer.step`, `print` of `print`; "" of what is neither attribute nor name."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
