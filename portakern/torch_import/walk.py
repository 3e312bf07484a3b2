"""The exported graph, read node by node into a tensor program.  What cannot be read becomes a hole, so that one walk lists all
of it."""

from __future__ import annotations

import contextlib
import keyword
import operator
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from portakern.errors import MissingRuleError, PortakernError
from portakern.ir.core import Arg, Block, ManyType, Op, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import Size, names_of
from portakern.ir.tensor import DimSize, Literal, Reshape, TensorProgram, TensorType, tensor_type, verify_tensor_program
from portakern.spec import elementwise as ew
from portakern.spec.location import on_behalf_of
from portakern.spec.traced import Traced, make, recording
from portakern.torch_import import aten  # noqa: F401  (registers the rules)
from portakern.torch_import.arrays import as_numpy
from portakern.torch_import.aten.complexes import Complex, complex_rule, from_pairs, has_complex, to_pairs
from portakern.torch_import.aten.without import base_of, way_out, why_not
from portakern.torch_import.capture import Captured
from portakern.torch_import.constants import with_constants
from portakern.torch_import.picked import PICKS, Picked, has_picked, on_picked, picked, picks
from portakern.torch_import.places import place_of
from portakern.torch_import.rules import RULES, Call, Lies, is_float, rule_for, value, wide
from portakern.torch_import.tables import tables_of
from portakern.torch_import.types import Meta, NotImported, Sizes

IGNORED = frozenset({"aten._assert_tensor_metadata", "aten._assert_scalar", "aten._assert_async", "aten.sym_constrain_range",
                     "aten.sym_constrain_range_for_size", "aten._functional_assert_async",
                     "aten._linalg_check_errors"})  # fmt: skip
"""What PyTorch asserts: sizes are checked when arrays come, and a matrix that has no factors gives NaN."""

DROPPED = frozenset({"device", "layout", "pin_memory", "memory_format", "generator", "non_blocking", "dtype"})
"""Arguments that say where an array lies, or what the result says already."""

NUMBERS = ("aten._local_scalar_dense", "aten.item")
"""What takes a number out of an array."""

SEED = "seed"


@dataclass(frozen=True)
class GraphInput:
    """An input of the graph: its name here, what it is (``USER_INPUT``, ``PARAMETER``, ``BUFFER``, ``CONSTANT_TENSOR``), its
    path in the module, and the number of a user's input among all that a call is given."""

    name: str
    kind: str
    path: str
    meta: Meta
    number: int = -1


@dataclass(frozen=True)
class Graph:
    """What was read.

    Args:
        program: with unused inputs left out.
        inputs: those of the program, user's first, without the seed.
        unused: the user's inputs that nothing reads.
        updates: outputs that are new values of buffers, by the buffer's path.
        random: whether the program takes a seed.
        constants: values of the inputs that are constants, which were made here.
        unsettled: the module's lines where kernels may decide otherwise than PyTorch, because floats of open sizes are rounded.
    """

    program: TensorProgram
    inputs: tuple[GraphInput, ...]
    unused: tuple[str, ...]
    updates: Mapping[str, str]
    random: bool
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    unsettled: tuple[str, ...] = ()


def read(captured: Captured, name: str) -> Graph:
    """The tensor program of an exported graph.

    Raises:
        MissingRuleError: something has no counterpart; all of it is listed, with the module's lines.
    """
    return Walk(captured, name).graph()


@dataclass
class Walk:
    """One pass over a graph.  ``missing`` says what could not be read, ``refused`` which nodes that was with all that follows
    from them, and ``why`` the reasons of those that are the first."""

    captured: Captured
    name: str
    env: dict[Any, Any] = field(default_factory=dict)
    args: dict[str, Arg] = field(default_factory=dict)
    inputs: list[GraphInput] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)
    seeds: int = 0
    given: int = 0
    lifted: dict[str, np.ndarray] = field(default_factory=dict)
    made: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, Traced] = field(default_factory=dict)
    refused: list[Any] = field(default_factory=list)
    why: dict[Any, str] = field(default_factory=dict)
    picks: set[str] = field(default_factory=set)

    def graph(self) -> Graph:
        exported = self.captured.exported
        self.sizes = Sizes(self.captured.symbols)
        self.kinds = {s.arg.name: (s.kind.name, s.target or "") for s in exported.graph_signature.input_specs
                      if hasattr(s.arg, "name")}  # fmt: skip
        self.seed = Arg(SEED, TensorType((), "i64"))
        self.tables = tables_of(exported.graph, self.held())
        with recording() as ops:
            for node in exported.graph.nodes:
                with on_behalf_of(place_of(node)):
                    self.visit(node)
            outputs, updates = self.outputs(exported)
            ops.append(Yield(tuple(v.op for v in outputs.values())))
        if self.missing:
            sized = [str(n.target) for n, why in self.why.items() if "numbers inside" in why]
            raise MissingRuleError(f"{self.name} cannot be imported", missing=tuple(self.missing),
                                   hint=way_out(sized) if sized else "", where=str(self.captured.loc or ""))  # fmt: skip
        return self.finished(ops, outputs, updates)

    def finished(self, ops: list[Op], outputs: Mapping[str, Traced], updates: Mapping[str, str]) -> Graph:
        args = (*self.args.values(), *([self.seed] if self.seeds else []))
        program = TensorProgram(self.name, Block(args, tuple(ops)), outputs=tuple(outputs),
                                scalars=(SEED,) if self.seeds else ())  # fmt: skip
        program, constants = with_constants(canonicalise(program), self.lifted)
        constants = {**self.made, **constants}
        for name in [n for n in constants if n not in self.made]:
            of = next(a for a in program.args if a.name == name)
            self.args[name] = of
            self.inputs.append(GraphInput(name, "CONSTANT", "", Meta(tensor_type(of).shape, tensor_type(of).dtype)))
        used = {o for op in program.body.ops for o in op.operands}
        used |= {self.args[n] for n in self.for_their_shapes(program, used)}
        kept = sorted((i for i in self.inputs if self.args[i.name] in used), key=lambda i: i.kind != "USER_INPUT")
        unused = tuple(i.name for i in self.inputs if i.kind == "USER_INPUT" and self.args[i.name] not in used)
        seed = [self.seed] if self.seed in used else []
        self.refuse_holes(program)
        if not kept:
            raise MissingRuleError(f"{self.name} cannot be imported", where=str(self.captured.loc or ""),
                                   missing=("its results are constant: they follow from none of its arrays",),
                                   hint="no kernel is needed for them: call it once in PyTorch and keep what it gives, or give "
                                        "what they are to follow from as an array")  # fmt: skip
        body = Block((*(self.args[i.name] for i in kept), *seed), program.body.ops)
        ranges = _ranges(program, {**self.lifted, **constants})
        program = replace(program, body=body, scalars=(SEED,) if seed else (), ranges=ranges)
        verify_tensor_program(program)
        unsettled = tuple(dict.fromkeys(str(place_of(n) or n) for n in self.tables.unsettled))
        return Graph(program, tuple(kept), unused, updates, bool(seed), constants, unsettled)

    def for_their_shapes(self, program: TensorProgram, used: Set[Op]) -> list[str]:
        """Inputs that are kept although nothing reads their elements.

        The program's sizes are read off them; and one is kept where there is no other, because a call says by it on which
        device its results are to be, and of which library they are."""
        told = _names(a for a in self.args.values() if a in used)
        needed, found = _names(program.body.ops), []
        for name in (i.name for i in self.inputs if i.kind == "USER_INPUT" and self.args[i.name] not in used):
            here = _names([self.args[name]])
            if needed & here - told or (not used & {*self.args.values()} and not found):
                found.append(name)
                told |= here
        return found

    def refuse_holes(self, program: TensorProgram) -> None:
        """Raises :class:`MissingRuleError` where something that could not be read is in ``program`` and was not said."""
        known = {*self.args.values(), self.seed}
        if not any(isinstance(o, Arg) and o not in known for op in program.body.ops for o in op.operands):
            return
        first = self.refused[0] if self.refused else None
        loc = place_of(first) if first is not None else None
        raise MissingRuleError(f"{self.name} cannot be imported", where=str(self.captured.loc or ""), missing=(
            f"{first.target if first is not None else 'part of it'}{f' ({loc})' if loc else ''}: it has no counterpart",))

    # ---- nodes

    def visit(self, node: Any) -> None:
        if node.op == "placeholder":
            self.placeholder(node)
        elif node in self.tables.values:
            self.env[node] = self.table(node, self.tables.values[node])
        elif node.op == "call_function" and node not in self.tables.skipped:
            self.env[node] = self.called(node)
        elif node.op == "get_attr":
            self.env[node] = getattr(node.graph.owning_module, str(node.target), None)

    def placeholder(self, node: Any) -> None:
        fake = node.meta.get("val")
        kind, path = self.kinds.get(node.name, ("USER_INPUT", ""))
        if kind == "TOKEN":  # of the order of assertions
            return
        number, self.given = (self.given, self.given + 1) if kind == "USER_INPUT" else (-1, self.given)
        if not hasattr(fake, "shape"):
            with contextlib.suppress(NotImported):  # an object, as a generator of random numbers: whatever reads it says so
                self.env[node] = self.scalar(fake)
            return
        meta = self.meta(node, fake)
        if meta is None:
            self.refused.append(node)
            return
        lifted = self.captured.exported.constants.get(path) if _is_lifted(kind, path) else None
        if lifted is not None and not meta.shape and not meta.complex:
            self.env[node] = make(Literal(lifted.item(), meta.dtype))
            return
        name = self.fresh(path or node.name)
        self.args[name] = Arg(name, TensorType((*meta.shape, 2) if meta.complex else meta.shape, meta.dtype))
        self.inputs.append(GraphInput(name, kind, path, meta, number))
        if lifted is not None:
            self.lifted[name] = as_numpy(lifted)
        self.env[node] = from_pairs(Traced(self.args[name])) if meta.complex else Traced(self.args[name])

    def held(self) -> dict[Any, Any]:
        """The placeholders that are constants of the code, with their tensors."""
        exported = self.captured.exported
        paths = {n: path for n in exported.graph.nodes if n.op == "placeholder"
                 for kind, path in [self.kinds.get(n.name, ("", ""))] if _is_lifted(kind, path)}  # fmt: skip
        return {n: x for n, path in paths.items() if (x := exported.constants.get(path)) is not None}

    def table(self, node: Any, tensor: Any) -> Any:
        """A tensor that PyTorch made at the import, as a constant."""
        meta = self.meta(node, tensor)
        if meta is None:
            self.refused.append(node)
            return self.hole(tensor)
        if not meta.shape and not meta.complex:
            return make(Literal(tensor.item(), meta.dtype))
        name = self.fresh(f"constant_{len(self.made)}")
        self.args[name] = Arg(name, TensorType((*meta.shape, 2) if meta.complex else meta.shape, meta.dtype))
        self.inputs.append(GraphInput(name, "CONSTANT", "", meta))
        self.made[name] = self.lifted[name] = as_numpy(tensor)
        return from_pairs(Traced(self.args[name])) if meta.complex else Traced(self.args[name])

    def fresh(self, wanted: str) -> str:
        """A name for an input, of a path such as ``layer1.0.weight``."""
        name = re.sub(r"\W", "_", wanted)
        name = f"a_{name}" if not name.isidentifier() or keyword.iskeyword(name) or name == SEED else name
        while name in self.args:
            name += "_"
        return name

    def meta(self, node: Any, fake: Any) -> Meta | None:
        try:
            return self.sizes.meta(fake)
        except NotImported as error:
            self.miss(node, str(node.target), error.message)
            return None

    def miss(self, node: Any, what: str, why: str) -> None:
        self.why[node] = why
        loc = place_of(node)
        self.missing[f"{what}{f' ({loc})' if loc else ''}: {why}"] = None

    def called(self, node: Any) -> Any:
        target = node.target
        if str(target) == "cond":
            return self.chosen(node)
        if target is operator.getitem:
            source = self.env.get(node.args[0])
            return source[node.args[1]] if source is not None else None
        name = str(target)
        fake = node.meta.get("val")
        if _is_assertion(node):
            return None
        if base_of(name) in NUMBERS and (number := self.number_inside(node, fake)) is not None:
            return number
        if fake is not None and not _arrays(fake):
            return self.scalar_or_hole(node, fake)
        try:
            return self.applied(node, name, fake)
        except PortakernError as error:
            if not self.follows(node):
                self.miss(node, name, error.message.splitlines()[0])
            self.refused.append(node)
        except _MISUSED as error:
            self.refused.append(node)
            self.miss(node, name, f"its rule does not take this form ({type(error).__name__}: {str(error)[:160]})")
        return self.hole(fake)

    def chosen(self, node: Any) -> Any:
        """The results of both branches of ``torch.cond``, of which the condition chooses one."""
        condition, yes, no, given = node.args
        if any(n in self.refused for n in node.all_input_nodes):
            self.refused.append(node)
            return self.hole(node.meta.get("val"))
        both = [self.inlined(self.env[branch], [self.value(x) for x in given]) for branch in (yes, no)]
        if any(x is None for made in both for x in made):
            self.refused.append(node)
            return self.hole(node.meta.get("val"))
        holds = self.value(condition)
        if not isinstance(holds, Traced):
            return both[0] if holds else both[1]
        return tuple(ew.where(holds, a, b) for a, b in zip(*both, strict=True))

    def inlined(self, module: Any, given: list[Any]) -> tuple[Any, ...]:
        """The results of a graph inside of the graph."""
        rest = iter(given)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = next(rest)
            elif node.op == "output":
                made = node.args[0] if isinstance(node.args[0], list | tuple) else (node.args[0],)
                return tuple(None if n in self.refused else self.value(n) for n in made)
            else:
                with on_behalf_of(place_of(node)):
                    self.visit(node)
        return ()

    def number_inside(self, node: Any, fake: Any) -> Traced | None:
        """A number that Python takes from an array, as ``x.max().item()``: a scalar here, of which sizes cannot be made."""
        array = self.env.get(node.args[0])
        symbol = getattr(getattr(fake, "node", None), "expr", None)
        if not isinstance(array, Traced) or not getattr(symbol, "is_Symbol", False):
            return None
        dtype = wide(array.type.dtype) if is_float(array.type.dtype) else "i64"
        found = ew.cast(make(Reshape(array.op, ())) if array.ndim else array, dtype)
        self.numbers[str(symbol)] = found
        return found

    def scalar_or_hole(self, node: Any, fake: Any) -> Any:
        try:
            return self.scalar(fake)
        except NotImported as error:
            if node.users and not self.follows(node) and not _asserted(node):
                self.miss(node, str(node.target), error.message)
            self.refused.append(node)
            return None

    def follows(self, node: Any) -> bool:
        """Whether something that it reads is not imported, which is said already."""
        return any(n in self.refused for n in node.all_input_nodes)

    def applied(self, node: Any, name: str, fake: Any) -> Any:
        kwargs = {k: self.value(v) for k, v in node.kwargs.items() if k not in DROPPED}
        args = self.value(node.args)
        if base_of(name) in PICKS and picks(name, args):
            return self.picked(name, args, fake)
        picked = has_picked([*args, *kwargs.values()])
        if not picked and (told := next((s for s in _symbols(fake) if s in self.picks), None)):
            raise NotImported(f"the size {told}, which follows from the numbers inside an array")
        results = tuple(self.sizes.meta(f) if hasattr(f, "shape") else None
                        for f in (fake if isinstance(fake, list | tuple) else (fake,)))
        call = Call(name, results, _used(node), _contiguous(node), _lies(node), self.next_seed)
        if picked:
            return _all_fitted(on_picked(node, call, args, kwargs), results)
        complex_ = has_complex([*args, *kwargs.values()]) or any(m is not None and m.complex for m in results)
        found = complex_rule(name) if complex_ else rule_for(name)
        if found is None:
            if (tensor := self.tables.value(node)) is not None:
                return self.table(node, tensor)
            raise NotImported(why_not(name))
        return _all_fitted(found(call, *args, **kwargs), results)

    def picked(self, name: str, args: list[Any], fake: Any) -> Picked:
        """Elements picked by a mask: their number is one inside an array, and as a size that of all lines."""
        found = picked(name, args[0], args[1])
        told = str(fake.shape[0].node.expr)
        self.picks.add(told)
        self.numbers[told] = found.number
        self.sizes = Sizes({**self.sizes.known, told: found.mask.shape[0]})
        return found

    def next_seed(self) -> Traced:
        """The operator's seed for the first random operation, and others derived from it for the next ones."""
        self.seeds += 1
        seed = Traced(self.seed)
        return seed if self.seeds == 1 else ew.add(seed, (self.seeds - 1) << 32)

    # ---- values

    def value(self, given: Any) -> Any:
        """An argument of a node with arrays and sizes of ours in place of nodes."""
        if isinstance(given, list | tuple):
            return [self.value(v) for v in given]
        if not hasattr(given, "op") or not hasattr(given, "target"):
            return given
        if given not in self.env:
            raise NotImported("it follows from something that is not imported")
        return self.env[given]

    def scalar(self, fake: Any) -> Any:
        """A symbolic number: a size, or a float made of sizes."""
        if isinstance(fake, int | float | bool | str) or fake is None:
            return fake
        kind = type(fake).__name__
        if kind == "SymInt":
            inside = any(str(x) in self.numbers for x in fake.node.expr.free_symbols)
            return self.whole(fake.node.expr) if inside else self.sizes.of(fake)
        if kind == "SymFloat":
            return self.fraction(fake.node.expr)
        raise NotImported("a truth that depends on open sizes or on numbers inside an array")

    def whole(self, e: Any) -> Any:
        """An integer expression of numbers inside arrays as a scalar of the program."""
        if e.is_Integer:
            return value(int(e), "i64")
        if e.is_Symbol and str(e) in self.numbers:
            return self.numbers[str(e)]
        fn = {"Add": ew.add, "Mul": ew.multiply, "Max": ew.maximum, "Min": ew.minimum, "FloorDiv": ew.floor_divide,
              "Mod": ew.remainder, "PythonMod": ew.remainder}.get(type(e).__name__)  # fmt: skip
        if e.is_Symbol or fn is None:
            raise NotImported(f"the number {e}, which follows from the numbers inside an array")
        return reduce(fn, [self.whole(a) for a in e.args])

    def fraction(self, e: Any) -> Any:
        """A float expression of sizes as a scalar of the program."""
        kind = type(e).__name__
        if e.is_Symbol and str(e) in self.numbers:
            number = self.numbers[str(e)]
            return number if is_float(number.type.dtype) else ew.cast(number, "f32")
        if e.is_Integer or e.is_Symbol or kind in ("FloorDiv", "CleanDiv"):
            return make(DimSize(self.sizes.read(e), "f32"))
        if e.is_Number:
            return float(e)
        if kind in ("Add", "Mul", "FloatTrueDiv", "IntTrueDiv", "ToFloat"):
            parts = [self.fraction(a) for a in e.args]
            if kind == "ToFloat":
                return parts[0]
            fn = {"Add": ew.add, "Mul": ew.multiply}.get(kind, ew.divide)
            total = parts[0]
            for p in parts[1:]:
                total = fn(total, p)
            return total
        if kind in ("Pow", "FloatPow", "PowByNatural"):
            return ew.pow(self.fraction(e.args[0]), float(e.args[1]))
        if kind.endswith("sqrt"):
            return ew.sqrt(self.fraction(e.args[0]))
        raise NotImported(f"the number {e}, made of open sizes")

    def hole(self, fake: Any) -> Any:
        """Something of the right type in place of what could not be read, so that the walk goes on."""
        if isinstance(fake, list | tuple):
            return tuple(self.hole(f) for f in fake)
        try:
            meta = self.sizes.meta(fake)
        except (NotImported, AttributeError):
            return None
        made = Traced(Arg("hole", TensorType(meta.shape, meta.dtype)))
        return Complex(made, made) if meta.complex else made

    # ---- outputs

    def outputs(self, exported: Any) -> tuple[dict[str, Traced], dict[str, str]]:
        """The outputs by name, and which of them are new values of buffers (or of inputs that are written to)."""
        node = next(n for n in exported.graph.nodes if n.op == "output")
        own: list[Traced] = []
        changed: dict[str, Traced] = {}
        updates: dict[str, str] = {}
        each = node.args[0] if isinstance(node.args[0], list | tuple) else (node.args[0],)
        for spec, given in zip(exported.graph_signature.output_specs, each, strict=True):
            made = self.env.get(given) if hasattr(given, "op") else None
            made = to_pairs(made) if isinstance(made, Complex) else made
            if isinstance(made, Picked):
                self.miss(given, "an output", "how many elements a mask picks, which follows from the numbers inside an array")
                continue
            if not isinstance(made, Traced):
                if spec.kind.name == "TOKEN":
                    continue
                if hasattr(given, "op") and not self.missing:
                    self.miss(given, "an output", "it is no array")
                continue
            if spec.kind.name == "USER_OUTPUT":
                own.append(made)
            else:
                name = f"new_{self.fresh(spec.target or given.name).rstrip('_')}"
                changed[name], updates[name] = made, spec.target or given.name
        names = ["out"] if len(own) == 1 else [f"out{i}" for i in range(len(own))]
        if not own and not changed and not self.missing:
            self.miss(node, "the outputs", "there is no array among them")
        free = (n if n not in self.args else f"{n}_" for n in names)
        return {**dict(zip(free, own, strict=True)), **changed}, updates


_MISUSED = (TypeError, ValueError, AttributeError, KeyError, IndexError, AssertionError, ZeroDivisionError)
"""What a rule raises on arguments that it was not written for."""


def _ranges(program: TensorProgram, constants: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    """Which numbers the constants of 64-bit integers have: a device may have no more than 32 bits."""
    wide = (a.name for a in program.args if a.name in constants and tensor_type(a).dtype == "i64")
    return tuple((n, int(constants[n].min()), int(constants[n].max())) for n in wide if constants[n].size)


def _names(ops: Iterable[Op]) -> set[str]:
    """The open dims in sizes of these operations."""
    found: set[str] = set()
    for op in ops:
        types = op.type.types if isinstance(op.type, ManyType) else (op.type,)
        sizes = [s for of in types if isinstance(of, TensorType) for s in of.shape]
        found.update(*(names_of(s) for s in (*sizes, *([op.size] if isinstance(op, DimSize) else []))))
    return found


def _is_lifted(kind: str, path: str) -> bool:
    """Whether an input is a constant of the code, as ``torch.tensor([1, 2])`` is, and not an array that the module holds."""
    return kind == "CONSTANT_TENSOR" and path.startswith("lifted_tensor_")


def _asserted(node: Any) -> bool:
    """Whether a number is only compared, for PyTorch's own assertions: nothing else follows from it."""
    seen, left = {node}, [node]
    while left:
        for user in left.pop().users:
            if str(user.target).startswith("<built-in function"):
                left += [user] if user not in seen else []
                seen.add(user)
            elif not str(user.target).startswith(("aten._assert", "aten.sym_constrain")):
                return False
    return True


def _arrays(fake: Any) -> bool:
    if isinstance(fake, list | tuple):
        return any(hasattr(f, "shape") for f in fake)
    return hasattr(fake, "shape")


def _used(node: Any) -> frozenset[int]:
    """The numbers of the results that something reads besides assertions."""
    read = (u for u in node.users if u.target is operator.getitem)
    return frozenset(u.args[1] for u in read if not u.users or not all(map(_is_assertion, u.users)))


def _is_assertion(node: Any) -> bool:
    name = str(node.args[1]) if str(node.target) == "with_effects" else str(node.target)
    return base_of(name) in IGNORED


def _contiguous(node: Any) -> bool:
    """Whether its first operand is, as far as sizes say without the numbers inside an array."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    first = _first(node)
    asked = getattr(first, "is_contiguous", None)
    return bool(asked()) if first is not None and callable(asked) and not free_unbacked_symbols(first) else True


def _first(node: Any) -> Any:
    """What is known of a node's first operand."""
    return node.args[0].meta.get("val") if node.args and hasattr(node.args[0], "meta") else None


def _lies(node: Any) -> Lies:
    """How its first operand lies in memory; with open sizes, only whether it is in row-major order."""
    first = _first(node)
    if not hasattr(first, "stride"):
        return Lies(())
    shape, steps, offset = tuple(first.shape), tuple(first.stride()), first.storage_offset()
    if not all(isinstance(n, int) for n in (*shape, *steps, offset)):
        return Lies(tuple(range(len(shape))) if _contiguous(node) else None)
    order = sorted(range(len(shape)), key=lambda d: (-steps[d], d) if shape[d] != 1 else (0, d))
    step = 1
    for d in reversed([d for d in order if shape[d] != 1]):
        if steps[d] != step:
            return Lies(tuple(range(len(shape))) if 0 in shape else None, offset)
        step *= shape[d]
    return Lies(tuple(order), offset)


def _symbols(fake: Any) -> list[str]:
    """Of the sizes of a result."""
    each = fake if isinstance(fake, list | tuple) else (fake,)
    sizes = (s for f in each for s in getattr(f, "shape", ()) if not isinstance(s, int))
    return [str(x) for s in sizes for x in s.node.expr.free_symbols]


def _all_fitted(made: Any, results: tuple[Meta | None, ...]) -> Any:
    if not isinstance(made, tuple):
        return _fitted(made, results[0])
    return tuple(_fitted(m, meta) for m, meta in zip(made, results, strict=False))


def _fitted(made: Any, meta: Meta | None) -> Any:
    """What a rule gave in the dtype and shape that PyTorch says."""
    if made is None or meta is None:
        return None
    if isinstance(made, Picked):
        return replace(made, lines=_fitted(made.lines, meta))
    if isinstance(made, Complex):
        of = replace(meta, complex=False)
        return Complex(_fitted(made.real, of), _fitted(made.imag, of))
    if made.shape != meta.shape:
        made = _same_elements(made, meta.shape)
    return ew.cast(made, meta.dtype)


def _same_elements(made: Traced, shape: tuple[Size, ...]) -> Traced:
    """A shape that differs in dims of 1 alone, or raises."""
    if [s for s in made.shape if s != 1] == [s for s in shape if s != 1]:
        return make(Reshape(made.op, shape))
    raise NotImported(f"its rule gives [{', '.join(map(str, made.shape))}] for [{', '.join(map(str, shape))}]")


def rules_known() -> frozenset[str]:
    """The names that have rules."""
    return frozenset(RULES)


