"""Timing a stranger's kernel: the side that judges.

The kernel's process times (:mod:`portakern.study.inside`), and of what it says only figures are taken.  On this side are

- the arrays, in shared memory, as they are when a kernel is checked: at drawn places, between guard bands of drawn bytes.
  Before every block of samples the inputs become such as the kernel has never seen, and the outputs are poisoned anew;
- the answers: what each timed call left behind is kept in part, and some of it held against the oracle when all is over, so
  that an answer from memory, or none, is found out whatever told the kernel that it was being timed;
- the clock of record: at the end every set is called once more, on new inputs, while this side's clock runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from time import monotonic as clock
from time import perf_counter_ns
from typing import Any

import numpy as np

from portakern.backend import HostBuffer
from portakern.check.bounds.free import free_rounding
from portakern.check.buffers import GUARD_BYTES, PAGE, Poison, damage, surround, unwritten
from portakern.check.compare import compare
from portakern.check.expected import expected
from portakern.check.restrict import Restricted, cut
from portakern.check.sampled import affordable, parts_of
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.native import open_device
from portakern.referee import shared
from portakern.referee.bell import ASKED, BLOCK, END, ENDED, GO, SERVED, Bell
from portakern.referee.messages import Garbled, member
from portakern.referee.process import KernelProcess
from portakern.referee.secret import Secret
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study.peers_apart import PeerFailed, PeerProcess, Turns, ours_of, peers_of
from portakern.study.peers_inside import HERE, HOST
from portakern.study.plausible import DISTURBED, Claim, Floor, Group, at_least, consistent, disturbed, floors, implausible
from portakern.study.provenance import commit_of, now
from portakern.study.row import Row
from portakern.study.steps import Build, cached_binary, run_environment
from portakern.study.stranger import kernel_process
from portakern.study.taken import figures
from portakern.study.timing import WHOLE_CALLS, peer_entry, plain
from portakern.study.work import Work
from portakern.timing.contents import Contents
from portakern.timing.inputs import MOST_SETS, bytes_of, same_bytes
from portakern.timing.measure import Options, Timing
from portakern.timing.roofline import COPY_BUDGET_S, measured_copy, product_of, roofline
from portakern.tools.waiting import Waiting

INSIDE = "portakern.study.inside"
MOST_BYTES = 1 << 30
"""Of all sets together, where they are more than two."""

ROUNDS, ROUNDS_S = 40, 6.0
"""How often every set is called at most while this side's clock runs, and for how long: twice where nothing is wrong."""

GROUP_US, QUICK_US, MOST_TIMES = 600.0, 300.0, 1000
"""Calls go in groups of about so long, with warm caches the same ones again and again; this side looks for the end of shorter
groups without a pause."""

SHORT_BYTES = 8 << 20
"""With cold caches there are more sets of short arrays than these need, up to so many bytes: what two processes say to each
other is little beside many calls."""

TALK_US, LINES_US, QUEUE_US = 150.0, 2.0, 60.0
"""What the processes say to each other takes at most so long beside the shortest group by this side's clock: for a group; and
for each call, since what another core has just written comes slowly, or where calls queue and return."""

TRIES = 3
"""How often it is timed where what else the machine does left nothing to hold a time against."""

VERIFIED, WHOLE = 48, 4
"""How many timed calls are held against the oracle in part, and how many of a last round wholly; within ``VERIFY_S`` each."""

COPY_BYTES = 4 << 20
"""The bandwidth of the host's memory is measured for sets larger than that."""

DISTURBED_COPY = 0.1
"""A copy that waited for so much of the time in which it is measured says nothing of the memory."""

VERIFY_S = 1.5
KEPT = 96
"""Of how many timed calls parts are kept until then."""

KEPT_WHOLE = 12
"""Of how many everything is, where outputs have no parts."""

PART = (1 << 12, 1 << 17)
"""Elements that a part reads and writes, and where it must be more."""

KIND = re.compile("[a-z][a-z-]{0,39}")


def timed_apart(work: Work, made: Build, against: Sequence[str], options: Mapping[str, Any], lost: Mapping[str, str]) -> Row:
    """The row of a stranger's kernel with its time.

    Raises :class:`PortakernError`: ``unstable`` for answers that are not those of the inputs, ``implausible-timing`` for
    figures that cannot be of the work, and what went wrong in the kernel's process.
    """
    assert work.foreign is not None and made.source is not None
    inside = replace(work, foreign=replace(work.foreign, secret=Secret.drawn(), again=False))
    asked = Options(**options)
    warm, taken = asked.cache == "warm", now()
    environment = run_environment(made.source.target, made.runner)
    with peers_of(work, tuple(against), with_peers(asked) if against else asked, environment) as peers:
        with kernel_process(work, "timing", environment) as process:
            begun = clock()
            told = asdict(with_peers(asked) if peers.places else asked)
            found = _answer(process.call(f"{INSIDE}:begin", (inside, made, cached_binary(made.binary_key), told)))
            trial = Trial(work, work.foreign.secret.other("timing"), member(found, "sets", int), warm, process)
            queues = member(found, "queues", bool)
            try:
                trial.give()
                for left in reversed(range(TRIES)):
                    try:
                        time, beside = trial.sampled(HERE, peers)
                        median = consistent(time, clock() - begun)
                        roof = roof_of(trial, made, median)
                        judged = trial.clocked(median, queues)
                        break
                    except PortakernError as error:
                        if error.kind != DISTURBED or not left:
                            raise
                entries = [peer_entry(peers.told[n], t, ours_of(time), asked) for n, t in beside]
                entries += wholes(trial, peers, asked, clock() - begun)
            except PortakernError as error:
                raise trial.explained(error) from error
            finally:
                trial.close()
        absent = [*peers.absent, *({"name": n, "error": why} for n, why in lost.items())]
    seen = trial.verify()
    method = (f"{made.row.method}; timed {process.method}, {seen['in_part']} timed calls in part and {seen['wholly']} wholly "
              "held against the oracle")  # fmt: skip
    if entries:
        alone = "" if "pid" in (process.parts or ()) else ", beside which what the kernel started may go on"
        method += f"; peers in a process of their own{alone}"
    found = figures(time)
    return made.row.but(evidence="timed", method=method, time={
        **found, "stopped": trial.stopped or found["stopped"], "options": plain(asked),
        "sizes": dict(work.sizes) or None, "peers": [*entries, *absent],
        "judged": {**judged, **seen}, "roofline": roof, "provenance": provenance(work, made, taken, asked)})  # fmt: skip


def provenance(work: Work, made: Build, taken: str, asked: Options) -> dict[str, Any]:
    """Where a time comes from, as far as this side knows."""
    assert made.source is not None
    toolchain = registry().language(made.source.target.language).toolchain
    return {"taken": taken, "seed": asked.seed, "operator": commit_of(work.file) if work.file else None,
            "driver": None, "device": {"name": made.row.device}, "compiler": made.row.method,
            "fingerprint": toolchain.fingerprint(made.source.target) if toolchain is not None else None}  # fmt: skip


def with_peers(asked: Options) -> Options:
    """Peers choose for themselves how many calls a sample has, but not whether a call in it pays for its launch."""
    return replace(asked, mode="batch") if asked.cache == "warm" and asked.mode == "auto" else asked


def wholes(trial: Trial, peers: PeerProcess, asked: Options, elapsed_s: float) -> list[dict[str, Any]]:
    """Entries of peers on the host where the kernel runs on a device: whole calls of both, under the host's clock."""
    if not peers.of(HOST):
        return []
    begun = clock()
    time, beside = trial.sampled(HOST, peers)
    consistent(time, elapsed_s + clock() - begun)
    return [peer_entry(peers.told[n], t, ours_of(time), asked, WHOLE_CALLS) for n, t in beside]


def roof_of(trial: Trial, made: Build, median_us: float) -> dict[str, Any] | None:
    """How near a time is to the device's peaks, by what this side measured and what is stated.  Raises for one that physics
    does not allow."""
    assert made.source is not None
    target = made.source.target
    host = target.device.kind == "cpu"
    product = None if host else product_of(target, made.row.device or "")
    copy = measured_copy(open_device("host")) if host else None
    with_copy = copy if trial.per_set > COPY_BYTES else None
    try:
        _above(median_us, floors(trial.program, not trial.warm, product, with_copy))
    except PortakernError as error:
        if with_copy is None:
            raise
        # The bandwidth may have been measured while others had the memory; a quicker copy is a lower floor.
        waiting = Waiting()
        copy = measured_copy(open_device("host"), again=True)
        if waiting.waited_us() > DISTURBED_COPY * 1e6 * COPY_BUDGET_S or waiting.stolen():
            raise disturbed(str(error)) from error
        _above(median_us, floors(trial.program, not trial.warm, product, copy))
    return roofline(trial.program, median_us, copy, product)


def _above(median_us: float, physical: Sequence[Floor]) -> None:
    for floor in physical:
        at_least(median_us, floor)


def _answer(found: Mapping[str, Any]) -> Mapping[str, Any]:
    error = found.get("error")
    if isinstance(error, dict):
        kind, message, hint = (member(error, name, str) for name in ("kind", "message", "hint"))
        raise PortakernError(kind if KIND.fullmatch(kind) else "exception", message, hint=hint)
    return found


Kept = list[tuple[int, dict[str, np.ndarray], np.ndarray]]
"""What one call was given and left behind: parts of the inputs and of an output, by the number of the part."""


class Trial:
    """The arrays of all sets, what they hold now, and what calls left in them."""

    def __init__(self, work: Work, secret: Secret, sets: int, warm: bool, process: KernelProcess) -> None:
        self.program = bind(work.program, work.sizes)
        self.secret, self.warm, self.process = secret, warm, process
        self.edges = registry().target(work.target).device.kind == "cpu"
        self.per_set = per_set = sum(map(bytes_of, (*self.program.args, *self.program.results)))
        self.count = max(1, min(sets, MOST_SETS, max(2, MOST_BYTES // max(per_set, 1))))
        if not warm:
            room = per_set + 2 * GUARD_BYTES * len((*self.program.args, *self.program.results))
            self.count = max(self.count, min(SHORT_BYTES // room, 16 * MOST_SETS))
        self.contents = Contents(self.program, work.families, secret.other("contents"))
        self.parts = _parts(self.program, secret)
        self.names = [(a.name, _shape(a), True) for a in self.program.args]
        self.names += [(n, _shape(r), False) for n, r in zip(self.program.outputs, self.program.results, strict=True)]
        self.made = 0
        self.blocks = 0
        self.turns: Turns | None = None
        self.stopped = ""
        self.served = 0
        self.given: dict[int, tuple[dict[str, np.ndarray], Poison]] = {}
        self.due: list[int] = []
        self.calls: list[Kept] = []
        self.looked = 0
        self.chance = secret.random("kept")
        self.wholes: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []

    # ---- arrays

    def give(self) -> None:
        """Makes the arrays, fills them, and hands them over."""
        rng = self.secret.random("places")
        windows = {f"{i} {n}": self._window(s, d, rng) for i in range(self.count) for n, (s, d), _ in self.names}
        self.arena = shared.arena_for(windows, rng)
        self.bell = Bell(self.arena.memory)
        self.sets: list[dict[str, HostBuffer]] = []
        told = []
        for i in range(self.count):
            rows = [shared.described(self.arena, f"{i} {n}", s, d, n) for n, (s, d), _ in self.names]
            told.append(rows)
            self.sets.append(shared.mapped_in(self.arena.memory, rows))
            self.renew(i)
        found = self.process.call(f"{INSIDE}:take", (len(self.arena.memory), told), [self.arena.descriptor])
        _answer(found)

    def _window(self, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> shared.Window:
        """As those have that are checked."""
        room, reach = _room(shape, dtype), int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        behind = bool(rng.integers(2))
        return shared.with_edge(room, GUARD_BYTES, reach, behind) if self.edges else shared.whole(room, GUARD_BYTES, reach)

    def explained(self, error: PortakernError) -> PortakernError:
        return self.arena.explained(error) if hasattr(self, "arena") and not self.process.alive() else error

    def close(self) -> None:
        if hasattr(self, "arena"):
            self.arena.close()

    def renew(self, number: int) -> None:
        """Inputs that were never there, and poison that was never there."""
        content = self.contents.make(self.made)
        poison = Poison(seed=self.secret.number("poison", self.made))
        for name, _, is_input in self.names:
            buffer = self.sets[number][name]
            surround(buffer, poison)
            if is_input:
                buffer.array[...] = content[name]
            else:
                buffer.storage[buffer.offset : buffer.offset + buffer.reach] = poison.inside(buffer)
        self.given[number] = content, poison
        self.made += 1

    def look(self, number: int, whole: bool = False) -> bool:
        """Keeps what a call left in a set; raises where that was nothing, or too much.  Whether it was called at all."""
        content, poison = self.given[number]
        copies = {n: np.array(self.sets[number][n].storage) for n in self.program.outputs}
        left = {n: replace(self.sets[number][n], storage=x) for n, x in copies.items()}
        untouched = [unwritten(b, poison) for b in left.values()]
        if self.warm and all(u.all() for u in untouched):
            return False
        for buffer, u in zip(left.values(), untouched, strict=True):
            by_chance = 8 + 4 * u.size / 256**buffer.dtype.itemsize if buffer.dtype.itemsize < 4 else 0
            if u.sum() > by_chance:
                raise _unstable(f"{buffer.name}: {int(u.sum())} of {u.size} elements were never written when timed")
        for name, _, is_input in self.names:
            if message := damage(self.sets[number][name], poison):
                raise _unstable(f"when timed, {message}")
            if is_input and not same_bytes(self.sets[number][name].array, content[name]):
                raise _unstable(f"the input {name} was changed by the calls that were timed")
        if whole or (not self.parts and len(self.wholes) < KEPT_WHOLE and self.chance.random() < 1 / 4):
            self.wholes.append((content, {n: b.array for n, b in left.items()}))
        self.looked += 1
        place = len(self.calls) if len(self.calls) < KEPT else int(self.chance.integers(self.looked))
        if place < KEPT:  # each call is as likely to be kept as any other
            kept = [(i, _few(content, p), np.array(cut(left[p.output].array, p.box))) for i, p in enumerate(self.parts)]
            self.calls[place : place + 1] = [kept]
        return True

    # ---- while the kernel's process times

    def sampled(self, place: str, peers: PeerProcess) -> tuple[dict[str, Any], list[tuple[str, Timing]]]:
        """The time that it gives by the clock of a place, and those of the peers there, in turns with it."""
        while True:
            self.failed: Exception | None = None
            with self.process.held():
                try:
                    self.turns = peers.turns(place)
                except (PeerFailed, PortakernError) as error:
                    _without(peers, error)
                    continue
            self.blocks, self.bell[END] = 0, 0
            answer = self.process.call(f"{INSIDE}:sample", (place, self.turns is not None), meanwhile=self.serve)
            if self.failed is not None:
                self.due = []
                _without(peers, self.failed)
                continue
            time = _answer(answer).get("time")
            if not isinstance(time, dict):
                raise Garbled("neither a time nor an error")
            self.finish()
            if self.blocks < member(time, "samples", int):
                raise implausible(f"its inputs were exchanged {self.blocks} times for {time['samples']} samples")
            if self.turns is None:
                return time, []
            with self.process.held():
                try:
                    if self.turns.owed:
                        self.turns.block()
                    beside = self.turns.end()
                except (PeerFailed, PortakernError) as error:
                    _without(peers, error)
                    continue
            if self.turns.blocks != time["samples"]:
                raise implausible(f"it gave {time['samples']} samples of {self.turns.blocks} blocks")
            self.stopped = self.stopped or self.turns.stopped
            return time, beside

    def serve(self) -> None:
        """Exchanges the arrays where that is asked for."""
        asked = self.bell[ASKED]
        if asked == self.served:
            return
        block = self.bell[BLOCK]
        self.finish()
        if self.turns is not None and not self.take_turns(self.turns):
            self.bell[END] = 1
        else:
            self.due = list(range(self.count)) if self.warm else [block % self.count]
            for number in self.due:
                self.renew(number)
            self.blocks += 1
        self.served = asked
        self.bell[SERVED] = asked

    def take_turns(self, turns: Turns) -> bool:
        """Has peers do their part of the block that ended, and of the one that begins where they are the first by lot; whether
        it begins."""
        ours_us = [float(self.bell.figures[0])] if self.blocks else []
        with self.process.held():
            try:
                if turns.owed:
                    turns.block()
                if turns.enough(ours_us):
                    return False
                turns.owed = bool(self.chance.random() < 1 / 2)
                if not turns.owed:
                    turns.block()
            except (PeerFailed, PortakernError) as error:
                self.failed = error
                return False
        return True

    def finish(self) -> None:
        """Looks at what the last block left."""
        called = [self.look(number) for number in self.due]
        if called and not any(called):
            raise _unstable("no output was written by the calls that were timed")
        self.due = []

    def clocked(self, median_us: float, queues: bool) -> dict[str, Any]:
        """Microseconds a call, by this side's clock, of the shortest of groups of calls that each find inputs of their own.

        Raises where that is far more than is claimed.  What else the machine does may lengthen a group, so that there are more
        of them before that is said; and where waiting for a processor explains it, nothing is said of the kernel.  That never
        makes a time longer than claimed good: a kernel may let its own threads wait.
        """
        group = self.group = max(1, min(self.count, round(GROUP_US / median_us)))
        times = self.times = max(1, min(MOST_TIMES, round(GROUP_US / median_us / self.count))) if self.warm else 1
        slack_us = TALK_US / group / times + (QUEUE_US if queues else LINES_US)
        expected_us = median_us * group * times
        spin_s, pause_s = (QUICK_US / 1e6 if expected_us < QUICK_US else 0.0), expected_us / 5e7

        claim = Claim(median_us, slack_us)
        begun, found = clock(), list[Group]()
        self.waiting, all_of_it = Waiting(self.process.family()), Waiting()
        for number in range(ROUNDS):
            if number < 2 or (not claim.fits(found) and clock() - begun < ROUNDS_S):
                found += self.round(number, spin_s, pause_s, queues)
        claim.hold(found, all_of_it.stolen())
        return {"us": min(g.us for g in found), "calls": group * times, "groups": len(found)}

    def round(self, number: int, spin_s: float, pause_s: float, queues: bool) -> list[Group]:
        for n in range(self.count):
            self.renew(n)
        late = [{} if queues else self.changes(n) for n in range(self.count)]
        whole = set(self.secret.random("whole", number).permutation(self.count)[:WHOLE].tolist())
        took: list[Group] = []
        limit_s = LIMIT_S + 2500 * pause_s

        def look(numbers: Sequence[int]) -> None:
            """The last one first: what is still at work when the end is announced has had the least time there."""
            for n in reversed(numbers):
                if not self.look(n, whole=n in whole):
                    raise _unstable("a call that was timed wrote nothing")

        def run() -> None:
            asked = self.bell[ASKED]
            if asked == self.served or len(took) * self.group >= self.count:
                return
            self.served = asked
            numbers = range(self.count)[len(took) * self.group :][: self.group]
            for n in numbers:
                self.change(n, late[n])
            self.waiting.begin()
            begun = perf_counter_ns()
            self.bell[GO] = asked
            if not self.bell.wait(ENDED, asked, limit_s, spin_s, pause_s, self.process.alive):
                if not self.process.alive():
                    return  # it died, and what it is asked says how
                raise PortakernError("timeout", f"{self.process.doing} did not finish within {limit_s:g} s and was ended")
            calls = len(numbers) * self.times
            took.append(Group((perf_counter_ns() - begun) / 1e3 / calls, self.waiting.waited_us() / calls))
            if not queues:
                look(numbers)

        _answer(self.process.call(f"{INSIDE}:clock", (self.group, self.times), meanwhile=run))
        if len(took) * self.group < self.count:
            raise implausible("its process did not call when it was told to")
        if queues:
            look(range(self.count))
        return took

    def changes(self, number: int) -> dict[str, tuple[Any, np.ndarray]]:
        """Elements of a set's inputs that will change at the last moment, and to what: a result of before is of no use then."""
        content, _ = self.given[number]
        found = {}
        for name in sorted(self.contents.moving):
            x = content[name]
            if x.size > 1:
                rows = x.reshape(-1, x.shape[-1])
                some = self.chance.permutation(len(rows))[: max(1, x.nbytes // PAGE)]
                to, of = self.chance.integers(rows.shape[1], size=(2, len(some)))
                where = np.unravel_index(some * rows.shape[1] + to, x.shape)
                found[name] = where, rows[some, of]
        return found

    def change(self, number: int, changes: Mapping[str, tuple[Any, np.ndarray]]) -> None:
        """In the arrays first, and then in what is held against them."""
        for name, (where, values) in changes.items():
            self.sets[number][name].array[where] = values
        content, poison = self.given[number]
        self.given[number] = {n: _changed(x, *changes[n]) if n in changes else x for n, x in content.items()}, poison

    # ---- when all is over

    def verify(self) -> dict[str, int]:
        """Holds what was kept against the oracle; how many calls in part, and how many wholly."""
        rng = self.secret.random("verified")
        begun, in_part = clock(), 0
        for n in rng.permutation(len(self.calls)).tolist()[:VERIFIED]:
            for i, few, actual in self.calls[n]:
                self._hold(self.parts[i].program, few, {self.parts[i].output: actual})
            in_part += bool(self.calls[n])
            if clock() - begun > VERIFY_S:
                break
        begun, wholly = clock(), 0
        for n in rng.permutation(len(self.wholes)).tolist() if affordable(self.program) else ():
            self._hold(self.program, *self.wholes[n])
            wholly += 1
            if clock() - begun > VERIFY_S:
                break
        return {"in_part": in_part, "wholly": wholly}

    def _hold(self, program: TensorProgram, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        with free_rounding():
            answers = expected(program, inputs)
        for (name, wanted), result in zip(answers.items(), program.results, strict=True):
            found = compare(wanted, tensor_type(result).dtype, outputs[name])
            if found.message:
                raise _unstable(f"{name}, of a call that was timed: {found.message}")


def _without(peers: PeerProcess, error: Exception) -> None:
    """The next try goes without who failed."""
    if isinstance(error, PeerFailed):
        peers.leave_out(error.name, error.reason)
    else:
        peers.lose(str(error))


LIMIT_S = 5.0
"""A group is waited for so long, and fifty times as long as it should take."""


def _changed(x: np.ndarray, where: Any, values: np.ndarray) -> np.ndarray:
    made = np.array(x)
    made[where] = values
    return made


def _unstable(message: str) -> PortakernError:
    return PortakernError("unstable", message, hint="the kernel keeps state between calls, races, or did not do the work")


def _parts(program: TensorProgram, secret: Secret) -> list[Restricted]:
    """Parts of the outputs that nobody else knows; of an output that cannot be cut, none."""
    found: list[Restricted] = []
    for output in program.outputs:
        found += parts_of(program, output, secret.number("parts"), PART) or []
    return found


def _few(content: Mapping[str, np.ndarray], part: Restricted) -> dict[str, np.ndarray]:
    return {n: np.array(cut(x, part.inputs[n])) if x.ndim else x for n, x in content.items()}


def _shape(value: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    of = tensor_type(value)
    return static(of.shape), numpy_dtype(of.dtype)


def _room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """As :func:`portakern.check.buffers.guarded` has it."""
    return -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // PAGE) * PAGE + 2 * GUARD_BYTES
