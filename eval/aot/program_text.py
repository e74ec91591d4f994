"""Kernels, traffic and collectives of a compiled program, read from its text.

The traffic is what the instructions read and write in the main memory of a device: each its operands and its result,
and of an array that is sliced, gathered from or updated in place only the part that it takes. What the compiler keeps
in the fast memory of a TPU core moves nothing. The body of a loop counts as often as it runs, or once if the compiler
does not know how often; of a condition, only the branch that moves least, as the others are for rare cases.
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
_COLLECTIVE = re.compile(r"all-|reduce-scatter|collective|ragged-all-to-all")


@dataclass
class ProgramCost:
    """What a program does on one device.

    Attributes:
      kernels: number of instructions that run by themselves.
      memory: bytes read and written in the main memory of the device.
      between_devices: bytes that collectives write.
      collectives: number of collectives that run, by kind.
      open_loops: number of loops that run as often as their data asks, and count once.
    """

    kernels: int = 0
    memory: float = 0.0
    between_devices: float = 0.0
    collectives: Counter[str] = field(default_factory=Counter)
    open_loops: int = 0

    def add(self, other: "ProgramCost", times: int = 1) -> None:
        """Adds what another program does ``times`` times."""
        self.kernels += times * other.kernels
        self.memory += times * other.memory
        self.between_devices += times * other.between_devices
        self.open_loops += other.open_loops
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
            count = re.search(r'"known_trip_count":\{"n":"(\d+)"', one.attributes)
            total.add(self._of(body), int(count[1]) if count else 1)
            total.open_loops += not count
        elif one.operation == "conditional":
            branches = re.search(r"branch_computations=\{([^}]*)\}", one.attributes)
            names = re.findall(r"[\w.\-]+", branches[1]) if branches else [
                _named(f"{which}_computation", one) for which in ("true", "false")
            ]  # fmt: skip
            total.add(min((self._of(branch) for branch in names), key=lambda cost: cost.memory))
        elif one.operation == "call":
            total.add(self._of(_named("to_apply", one)))
        else:
            outer = [computation.by_name[operand].shape for operand in one.operands]
            read = sum(min(_size(shape), self._read(one, place, shape)) for place, shape in enumerate(outer))
            written = self._written(one, computation)
            total.kernels += 1
            total.memory += read + written
            if _COLLECTIVE.match(one.operation):
                total.between_devices += written
                total.collectives[one.operation.removesuffix("-start")] += 1

    def _read(self, one: _Instruction, place: int, shape: str) -> float:
        """Returns how many bytes an instruction takes of an operand that is anywhere in memory."""
        whole = _size(shape, anywhere=True)
        if one.called in self._computations:
            inner = self._computations[one.called or ""]
            name = inner.parameters.get(place)
            return whole if name is None else min(whole, self._used(inner, name, shape))
        if place == 0 and one.operation in _PARTS:
            return min(whole, _size(one.shape, anywhere=True))
        return 0.0 if place == 0 and one.operation in ("dynamic-update-slice", "scatter") else whole

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
        return min(_size(one.shape), self._result(one, computation))

    def _result(self, one: _Instruction | None, computation: _Computation) -> float:
        """Returns how many bytes an instruction, or the kernel whose root it is, writes."""
        if one is None:
            return 0.0
        if one.called in self._computations and one.operation == "fusion":
            inner = self._computations[one.called or ""]
            return self._result(inner.root, inner)
        if one.operation == "tuple":
            return sum(self._result(computation.by_name[operand], computation) for operand in one.operands)
        if one.operation == "bitcast":
            return self._result(computation.by_name[one.operands[0]], computation)
        place = {"dynamic-update-slice": 1, "scatter": 2}.get(one.operation)
        shape = one.shape if place is None else computation.by_name[one.operands[place]].shape
        return _size(shape, anywhere=True)


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
    for kind, extents, layout in re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape):
        if anywhere or "S(1)" not in layout:
            each = _BYTES.get(kind) or int(re.sub(r"\D", "", kind) or 0) / 8
            total += each * float(np.prod([int(extent) for extent in extents.split(",") if extent]))
    return total
