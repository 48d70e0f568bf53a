"""Calls of tools that have no `await` before them, but whose results asyncio is to await.

`await asyncio.gather(tool(1), tool(2))` means two calls at the same time. When it calls `tool`, nothing
tells the function so but where the call stands; so that is looked up when a cell begins.
"""

from . import __builtins__

import ast
from itertools import islice
from types import CodeType

# Python 3.11 tells where in the source an instruction comes from; before, `tool.aio(...)` is needed.
_KNOWS_PLACES = hasattr(CodeType, "co_positions")
# Those of asyncio that take what can be awaited.
_TAKERS = frozenset({"gather", "wait", "wait_for", "as_completed", "create_task", "ensure_future", "shield"})
# Most cells name none of them, and are not looked at any further.
_SIGNS = (".wait(", *(f"{name}(" for name in sorted(_TAKERS - {"wait"})))
_COLLECT = frozenset({"append", "add", "extend", "insert"})
# Cells of a long session whose places are kept.
MAX_CELLS = 200

# Whether there are tools at all.
active = False
# File name -> (line, last line, column, last column) of calls that begin instead of blocking -> whether a
# coroutine is wanted, which is all that tasks are made of.
_places = {}


def look_at(source, filename):
    """Finds such calls in a cell that compiles."""
    _places.pop(filename, None)
    if active and _KNOWS_PLACES and any(sign in source for sign in _SIGNS):
        try:
            places = _find(compile(source, filename, "exec", ast.PyCF_ONLY_AST))
        except (SyntaxError, ValueError, RecursionError):
            return
        if places:
            _places[filename] = places
            if len(_places) > MAX_CELLS:
                del _places[next(iter(_places))]


def wanted_as(frame):
    """None when what this frame calls right now shall block; else what makes a future what is wanted."""
    places = _places.get(frame.f_code.co_filename)
    if places is None:
        return None
    place = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    return _AS_WANTED.get(places.get(place))


async def _coroutine(future):
    return await future


def itself(future):
    return future


_AS_WANTED = {True: _coroutine, False: itself}


def _find(tree):
    nodes = list(ast.walk(tree))
    wanted = []
    for node in nodes:
        if isinstance(node, ast.Call) and _name(node.func) in _TAKERS:
            as_task = _name(node.func) == "create_task"
            wanted += ((argument, as_task) for argument in node.args)
            if any(isinstance(argument, ast.Starred) for argument in node.args):
                # The elements of `*map(tool, items)` are made where they are spread.
                wanted.append((node, as_task))
    # One step back: gather(*calls) is mostly preceded by calls = [tool(n) for n in numbers].
    names = {_spread(node).id: as_task for node, as_task in wanted if isinstance(_spread(node), ast.Name)}
    for node in nodes if names else ():
        for name, as_task in names.items():
            wanted += ((part, as_task) for part in _put_into(node, name))
    return {_place(call): as_task for node, as_task in wanted for call in _calls(node)}


def _name(function):
    return getattr(function, "attr", None) or getattr(function, "id", None)


def _spread(node):
    return node.value if isinstance(node, ast.Starred) else node


def _put_into(node, name):
    """What a statement or a call puts into a variable."""
    if isinstance(node, ast.Assign):
        return [node.value] if any(_name(target) == name for target in node.targets) else []
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        return [node.value] if node.value is not None and _name(node.target) == name else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECT:
        return node.args if _name(node.func.value) == name else []
    return []


def _calls(node):
    """The calls whose results an expression consists of."""
    pending = [node]
    while pending:
        node = _spread(pending.pop())
        if isinstance(node, ast.Call):
            yield node
            if _name(node.func) in ("list", "tuple", "set"):
                pending += node.args
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            pending += node.elts
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            pending.append(node.elt)
        elif isinstance(node, ast.IfExp):
            pending += (node.body, node.orelse)


def _place(node):
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
