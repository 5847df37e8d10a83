"""Which cells have to run before another one, by the names that each reads and assigns.

An estimate from the source alone. What a function does to its arguments is seen only where it is
called for that alone, in a line of its own, as in ``train(net)`` and ``net.eval()``.
"""

import ast
import builtins
import symtable
from dataclasses import dataclass, field
from functools import cache

from IPython.core.inputtransformer2 import TransformerManager

AT_ONCE = ("listcomp", "setcomp", "dictcomp", "genexpr")  # other functions are called later
FOLLOWED = (ast.With, ast.For, ast.If)  # their blocks, line by line; others are read as a whole


@dataclass
class Names:
    """The names of a cell.

    Attributes
    ----------
    reads : set
        what it takes from other cells while it runs
    reads_later : set
        what its functions take from other cells when they are called
    assigns : set
        what it gives a value
    replaces : set
        of these, what has a new value after it in any case
    changes : set
        what may be changed in place
    imports : set
        what it imports
    """

    reads: set = field(default_factory=set)
    reads_later: set = field(default_factory=set)
    assigns: set = field(default_factory=set)
    replaces: set = field(default_factory=set)
    changes: set = field(default_factory=set)
    imports: set = field(default_factory=set)


@dataclass(frozen=True)
class Plan:
    """What a run takes: places of cells.

    Attributes
    ----------
    run : list of int
        What has to run before, in this order.
    again : list of int
        What has run, and counts as not run afterwards: a name of theirs will have an older value.
    """

    run: list
    again: list


def plan(sources, have_run, wanted, optional=(), needs_all=False):
    """Return what has to run before a cell.

    Parameters
    ----------
    sources : list of str
        The cells of a notebook.
    have_run : set of int
        The places of those that need not run again.
    wanted : int
        The place of the one that is to be run.
    optional : set of int
        The places of cells that run only on request, such as solutions.
    needs_all : bool
        Whether all cells above have to run, not only those that it needs.
    """
    names, done = [names_in(source) for source in sources], set(have_run) - {wanted}
    above = [place for place in range(wanted) if place not in optional]
    while True:
        chosen = (
            [p for p in above if p not in done]
            if needs_all
            else _needed(names, wanted, above, done)
        )
        again = {place for place in done if _is_undone(names, place, chosen)}
        if not again:
            return Plan(chosen, sorted(have_run - done))
        done -= again


def _needed(names, wanted, above, done):
    """Return the places of the cells above that another needs and that have not run, in order."""
    touched = _touched(names)
    chosen, later, before = set(), set(names[wanted].reads_later), None
    while before != (len(chosen), len(later)):  # functions need more than the cells that call them
        before = len(chosen), len(later)
        missing = set(names[wanted].reads)
        for place in reversed(above):
            if not touched[place] & (missing | later):
                continue
            missing -= names[place].replaces
            if place not in done:
                chosen.add(place)
                missing |= names[place].reads
                later |= names[place].reads_later
    return sorted(chosen)


def _touched(names):
    """Return of each cell what it assigns or changes; a call does not change a module."""
    modules = set().union(*(own.imports for own in names))
    return [own.assigns | (own.changes - modules) for own in names]


def _is_undone(names, place, chosen):
    """Return whether cells that run now, and stand above, assign what a cell has assigned."""
    return any(i < place and names[i].assigns & names[place].assigns for i in chosen)


@cache
def names_in(source):
    """Return the names of a cell; none if it is no Python."""
    names = Names()
    try:
        _add_all(ast.parse(TransformerManager().transform_cell(source)).body, names, names.replaces)
    except SyntaxError:
        return Names()
    names.reads_later -= names.replaces
    return names


def _add_all(statements, names, known):
    """Add statements that run in turn; `known` are the names that have a value by then."""
    for statement in statements:
        is_followed, is_sure = isinstance(statement, FOLLOWED), isinstance(statement, ast.With)
        table = _table(_head(statement) if is_followed else statement)
        found = _add_scopes(table, names, known)
        names.changes |= _changed(statement)
        if is_sure or not is_followed:
            known |= found
        for block in _blocks(statement) if is_followed else ():
            _add_all(block, names, known if is_sure else known | found)


def _blocks(statement):
    return [block for block in (statement.body, getattr(statement, "orelse", ())) if block]


def _head(statement):
    """Return a statement without what stands in its blocks."""
    fields = dict(ast.iter_fields(statement)) | {"body": [ast.Pass()]}
    fields |= {"orelse": []} if "orelse" in fields else {}
    return ast.copy_location(type(statement)(**fields), statement)


def _table(statement):
    """Return a statement's table of symbols, in which ``n += 1`` reads `n` as well."""
    lines = [ast.unparse(statement)]
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
        added = [node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)]
        lines += map(ast.unparse, added)
    return symtable.symtable("\n".join(lines), "cell", "exec")


def _add_scopes(table, names, known):
    """Add what a statement reads and assigns; return what it assigns."""
    symbols = table.get_symbols()
    reads = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    imports = {symbol.get_name() for symbol in symbols if symbol.is_imported()}
    assigns = {symbol.get_name() for symbol in symbols if symbol.is_assigned()} | imports
    for child in table.get_children():
        _add_inner(child, reads, names.reads_later, names.assigns)
    names.reads |= reads - known
    names.imports |= imports
    names.assigns |= assigns
    return assigns


def _add_inner(table, reads, later, assigns):
    """Add what a scope inside a statement reads of the notebook's names, now or later."""
    is_now = table.get_type() == "class" or table.get_name() in AT_ONCE
    ours = [symbol for symbol in table.get_symbols() if symbol.is_global()]
    found = reads if is_now else later
    found |= {symbol.get_name() for symbol in ours if symbol.is_referenced()}
    assigns |= {symbol.get_name() for symbol in ours if symbol.is_assigned()}
    for child in table.get_children():
        _add_inner(child, found, later, assigns)


def _changed(statement):
    """Return the names that ``x[0] = 1``, ``x.append(1)`` or ``f(x)`` changes the value of."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _changed_by(statement.value)
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return _roots(t for t in targets if isinstance(t, ast.Attribute | ast.Subscript))


def _changed_by(call):
    if isinstance(call.func, ast.Attribute):
        return _roots([call.func])
    is_built_in = isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id)
    return set() if is_built_in else _roots(call.args)


def _roots(expressions):
    """Return the names that expressions such as ``name.part[0]`` begin with."""
    found = set()
    for expression in expressions:
        while isinstance(expression, ast.Attribute | ast.Subscript):
            expression = expression.value
        if isinstance(expression, ast.Name):
            found.add(expression.id)
    return found
