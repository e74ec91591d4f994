"""Kernels, traffic and collectives of a compiled program, read from its text.

The traffic is what the instructions read and write in the main memory of a device: each its operands and its result,
and of an array that is sliced, gathered from or updated in place only the part that it takes. What the compiler keeps
in the fast memory of a TPU core moves nothing. The body of a loop counts as often as it runs, or once if that depends
on the data; of a condition, only the branch that moves least counts, as the others are for rare cases.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np

__all__ = ["ProgramCost", "cost_of_text"]

_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "token": 0}
# What moves nothing by itself.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}
# What takes a part of its first operand, as large as the result.
_PARTS = {"slice", "dynamic-slice", "gather"}
# What replaces a part of its first operand, and the place of the operand with the new values.
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
_COLLECTIVE = re.compile(r"all-|reduce-scatter|collective|ragged-all-to-all")
# An array of a shape: its type, its extents, and its layout.
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
# TPU programs begin a collective in one kernel and end it in another; kernels between them carry it on beside their
# own work. Only names tell them: that of the instruction where it begins, and of what a kernel calls that carries it
# on. The collective, and what it reads and writes, is counted where it ends.
_BEGUN, _CARRIED = "async-collective-start", "async_collective_fusion"


@dataclass
class ProgramCost:
    """What a program does on one device.

    Attributes:
      kernels: number of instructions that run by themselves.
      traffic: bytes read and written in the main memory of the device.
      between_devices: bytes that collectives write.
      collectives: number of collectives that run, by kind.
      open_loops: number of loops that run as often as their data asks, and count once.
    """

    kernels: int = 0
    traffic: float = 0.0
    between_devices: float = 0.0
    collectives: Counter[str] = field(default_factory=Counter)
    open_loops: int = 0

    def add(self, other: "ProgramCost", times: int = 1) -> None:
        """Adds what another program does ``times`` times."""
        self.kernels += times * other.kernels
        self.traffic += times * other.traffic
        self.between_devices += times * other.between_devices
        self.open_loops += times * other.open_loops
        for kind, count in other.collectives.items():
            self.collectives[kind] += times * count


@dataclass(frozen=True)
class _Instruction:
    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    attributes: str

    @property
    def called(self) -> str | None:
        """The computation that it runs as one kernel."""
        found = re.search(r"calls=%?([\w.\-]+)", self.attributes)
        return found[1] if found else None


class _Computation:
    """The instructions of a computation, by name, and which use which."""

    def __init__(self, instructions: list[_Instruction]) -> None:
        self.by_name = {one.name: one for one in instructions}
        self.root = instructions[-1] if instructions else None
        self.parameters: dict[int, str] = {}
        self.users: defaultdict[str, list[tuple[_Instruction, int]]] = defaultdict(list)
        for one in instructions:
            if one.operation == "parameter":
                self.parameters[int(one.attributes.split(")")[0])] = one.name
            for place, operand in enumerate(one.operands):
                self.users[operand].append((one, place))


def cost_of_text(text: str) -> ProgramCost:
    """Returns what a compiled program does on one device.

    Args:
      text: the program, as ``compiled.as_text()`` returns it.
    """
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self._computations = {name: _Computation(list(_instructions(body))) for _, name, body in _bodies(text)}
        self._entry = next(name for entry, name, _ in _bodies(text) if entry)
        self._of = cache(self._uncached)

    def whole(self) -> ProgramCost:
        return self._of(self._entry)

    def _uncached(self, name: str) -> ProgramCost:
        """Returns what a computation does whose instructions run by themselves."""
        total = ProgramCost()
        computation = self._computations[name]
        for one in computation.by_name.values():
            self._add(total, one, computation)
        return total

    def _add(self, total: ProgramCost, one: _Instruction, computation: _Computation) -> None:
        if one.operation in _FREE or one.operation.endswith(("-done", "-update")):
            return
        if one.operation == "while":
            body = _named("body", one)
            steps = self._steps(one)
            total.add(self._of(body), steps or 1)
            total.open_loops += steps is None
        elif one.operation == "conditional":
            branches = re.search(r"branch_computations=\{([^}]*)\}", one.attributes)
            names = re.findall(r"[\w.\-]+", branches[1]) if branches else [
                _named(f"{which}_computation", one) for which in ("true", "false")
            ]  # fmt: skip
            total.add(min((self._of(branch) for branch in names), key=lambda cost: cost.traffic))
        elif one.operation == "call":
            total.add(self._of(_named("to_apply", one)))
        elif one.name.startswith(_BEGUN):
            total.kernels += 1
        else:
            carried = _carried_on(one)
            outer = [computation.by_name[operand].shape for operand in one.operands]
            read = sum(
                min(_size(shape), self._read(one, place, shape))
                for place, shape in enumerate(outer)
                if carried is None or place not in carried.values()
            )
            total.kernels += 1
            if carried is None:
                total.traffic += read + self._written(one, computation)
                self._add_collectives(total, one, computation)
            else:
                parts = enumerate(_ARRAY.finditer(one.shape))
                total.traffic += read + sum(_size(part[0]) for place, part in parts if place not in carried)

    def _add_collectives(self, total: ProgramCost, one: _Instruction, computation: _Computation) -> None:
        """Counts an instruction that is a collective, or those inside a kernel, wherever their results are."""
        if _COLLECTIVE.match(one.operation):
            given = 0.0
            if one.operation.endswith("-start") and one.operation != "all-reduce-start":
                given = sum(_size(computation.by_name[operand].shape, anywhere=True) for operand in one.operands)
            total.between_devices += max(0.0, _size(one.shape, anywhere=True) - given)
            total.collectives[one.operation.removesuffix("-start")] += 1
        elif one.called in self._computations:
            inner = self._computations[one.called or ""]
            for part in inner.by_name.values():
                self._add_collectives(total, part, inner)

    def _steps(self, loop: _Instruction) -> int | None:
        """Returns how often a loop runs; None if that is not known before."""
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(known[1])
        # TPU programs do not say so. JAX's own loops count from 0 up to a constant.
        until = self._computations.get(_named("condition", loop))
        if until is None or until.root is None or until.root.operation != "compare":
            return None
        if "direction=LT" not in until.root.attributes:
            return None
        counter, most = (until.by_name[operand] for operand in until.root.operands)
        constant = re.match(r"(\d+)\)", most.attributes)
        return int(constant[1]) if counter.operation == "get-tuple-element" and constant else None

    def _read(self, one: _Instruction, place: int, shape: str) -> float:
        """Returns how many bytes an instruction takes of an operand that is anywhere in memory."""
        whole = _size(shape, anywhere=True)
        if one.called in self._computations:
            inner = self._computations[one.called or ""]
            name = inner.parameters.get(place)
            return whole if name is None else min(whole, self._used(inner, name, shape))
        if place == 0 and one.operation.removesuffix("-start") in _PARTS:
            taken = _size(one.shape, anywhere=True)
            # What starts a slice returns its operand beside it.
            return min(whole, taken - whole if one.operation.endswith("-start") else taken)
        return 0.0 if place == 0 and one.operation in _UPDATES else whole

    def _used(self, inner: _Computation, name: str, shape: str) -> float:
        """Returns how many bytes of a value are taken inside a kernel."""
        total = 0.0
        for user, place in inner.users[name]:
            if user.operation == "bitcast":
                total += self._used(inner, user.name, shape)
            else:
                total += self._read(user, place, shape)
        return total

    def _written(self, one: _Instruction, computation: _Computation) -> float:
        if one.operation == "custom-call" and one.shape.startswith("("):
            # The last part of cuBLAS's and cuDNN's results is their scratch.
            return _size(re.sub(r"[su]8\[[^\]]*\](\{[^}]*\})?\)$", "", one.shape))
        if one.operation.endswith("-start") and one.operation != "all-reduce-start":
            # What starts an asynchronous operation returns its operands beside the result, and sometimes a mark.
            operands = sum(_size(computation.by_name[operand].shape) for operand in one.operands)
            return max(0.0, _size(one.shape) - operands)
        return min(_size(one.shape), self._result(one, computation, inside=False))

    def _result(self, one: _Instruction | None, computation: _Computation, *, inside: bool) -> float:
        """Returns how many bytes an instruction, or the kernel whose root it is, writes."""
        if one is None:
            return 0.0
        if one.called in self._computations and one.operation == "fusion":
            inner = self._computations[one.called or ""]
            return self._result(inner.root, inner, inside=True)
        if one.operation == "tuple":
            parts = (computation.by_name[operand] for operand in one.operands)
            return sum(self._result(part, computation, inside=inside) for part in parts)
        if one.operation == "bitcast":
            return self._result(computation.by_name[one.operands[0]], computation, inside=inside)
        place = _UPDATES.get(one.operation)
        if place is None:
            return _size(one.shape, anywhere=True)
        changed = computation.by_name[one.operands[0]]
        while changed.operation == "bitcast":
            changed = computation.by_name[changed.operands[0]]
        # In a kernel, what is made there is written as a whole; what is there before is changed where it is.
        written = one if inside and changed.operation != "parameter" else computation.by_name[one.operands[place]]
        return _size(written.shape, anywhere=True)


def _carried_on(one: _Instruction) -> dict[int, int] | None:
    """Returns, of a kernel that carries on a collective, which parts of its result are which operands; else None."""
    if not (one.called or "").startswith(_CARRIED):
        return None
    # As in output_to_operand_aliasing={{1}: (0, {}), {2}: (1, {})}.
    pairs = re.findall(r"\{(\d+)\}: \((\d+), \{\}\)", one.attributes)
    return {int(place): int(operand) for place, operand in pairs}


def _named(attribute: str, one: _Instruction) -> str:
    found = re.search(rf"{attribute}=%?([\w.\-]+)", one.attributes)
    assert found is not None, f"{one.operation} without {attribute}"
    return found[1]


def _bodies(text: str) -> Iterator[tuple[bool, str, str]]:
    """Yields whether it is the entry, the name and the text of each computation."""
    # A line that is only a brace does not end a computation: the attributes of a Pallas kernel have such lines too.
    headers = list(re.finditer(r"^(ENTRY )?%?([\w.\-]+) \([^\n]*\{$", text, re.MULTILINE))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, end in zip(headers, ends, strict=True):
        yield bool(header[1]), header[2], text[header.end() : end]


def _instructions(body: str) -> Iterator[_Instruction]:
    for line in body.splitlines():
        match = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$", line)
        if match:
            operands = tuple(re.findall(r"%([\w.\-]+)", match[4].split(")")[0]))
            yield _Instruction(match[1], match[2], match[3], operands, match[4])


def _size(shape: str, *, anywhere: bool = False) -> float:
    """Returns the bytes of a shape, or of all parts of a tuple, that are in main memory, or anywhere."""
    total = 0.0
    for kind, extents, layout in _ARRAY.findall(shape):
        if anywhere or not re.search(r"S\([1-9]", layout):
            each = _BYTES.get(kind) or int(re.sub(r"\D", "", kind) or 0) / 8
            total += each * float(np.prod([int(extent) for extent in extents.split(",") if extent]))
    return total
