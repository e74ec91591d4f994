"""Kernels, traffic and collectives of a compiled program, read from its text.

The traffic is the bytes that instructions read and write in the main memory of a device: each its operands and its
result, and of an array that is sliced, gathered from or updated in place only the part that it takes. Arrays that the
compiler keeps in the fast memory of a TPU core move nothing. The body of a loop counts as often as it runs, or once if
that depends on the data; of a condition, only the branch that moves least counts, as the others are for rare cases.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

__all__ = ["TextCost", "cost_of_text"]

_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "token": 0}
# Instructions that move nothing by themselves.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}
# Instructions that take a part of their first operand, as large as the result.
_PARTS = {"slice", "dynamic-slice", "gather"}
# Instructions that replace a part of their first operand, and the place of the operand with the new values.
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
_COLLECTIVE = re.compile(r"all-|reduce-scatter|collective|ragged-all-to-all")
# An array of a shape: its type, its extents, and its layout.
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
# TPU programs begin a collective in one kernel and end it in another; kernels between them carry it on beside their
# own work. Only names tell them: that of the instruction where it begins, and of the computation that a kernel which
# carries it on calls. The collective, and what it reads and writes, is counted where it ends.
_BEGUN, _CARRIED = "async-collective-start", "async_collective_fusion"


@dataclass
class TextCost:
    """The cost of a program on one device, as in ``ProgramCost``, with the traffic in bytes."""

    kernels: int = 0
    traffic: float = 0.0
    collectives: Counter[str] = field(default_factory=Counter)
    open_loops: int = 0

    def add(self, other: "TextCost", times: int = 1) -> None:
        """Adds the cost of another program that runs ``times`` times."""
        self.kernels += times * other.kernels
        self.traffic += times * other.traffic
        self.open_loops += times * other.open_loops
        self.collectives.update({kind: times * count for kind, count in other.collectives.items()})


class _Instruction(NamedTuple):
    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    attributes: str

    def named(self, attribute: str) -> str:
        """The computation that an attribute names; empty without it."""
        found = re.search(rf"{attribute}=%?([\w.\-]+)", self.attributes)
        return found[1] if found else ""

    @property
    def returns_operands(self) -> bool:
        """Whether it starts an asynchronous operation, and returns its operands beside the result."""
        return self.operation.endswith("-start") and self.operation != "all-reduce-start"


_Computation = dict[str, _Instruction]


def cost_of_text(text: str) -> TextCost:
    """Reads the cost of a compiled program, ``compiled.as_text()``, on one device."""
    # A line that is only a brace does not end a computation: the attributes of a Pallas kernel have such lines too.
    headers = list(re.finditer(r"^(ENTRY )?%?([\w.\-]+) \([^\n]*\{$", text, re.MULTILINE))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    computations = {
        header[2]: {instruction.name: instruction for instruction in _instructions(text[header.end() : end])}
        for header, end in zip(headers, ends, strict=True)
    }
    return _TextReader(computations).cost(next(header[2] for header in headers if header[1]))


class _TextReader:
    def __init__(self, computations: dict[str, _Computation]) -> None:
        self._computations = computations
        self.cost = cache(self._cost)

    def _called(self, instruction: _Instruction) -> _Computation:
        """The computation that an instruction runs as one kernel."""
        return self._computations.get(instruction.named("calls"), {})

    def _cost(self, name: str) -> TextCost:
        """The cost of a computation whose instructions run by themselves."""
        total = TextCost()
        computation = self._computations[name]
        for instruction in computation.values():
            if instruction.operation in _FREE or instruction.operation.endswith(("-done", "-update")):
                continue
            if instruction.operation == "while":
                steps = self._steps(instruction)
                total.add(self.cost(instruction.named("body")), steps or 1)
                total.open_loops += steps is None
            elif instruction.operation == "conditional":
                branches = re.search(r"branch_computations=\{([^}]*)\}", instruction.attributes)
                names = re.findall(r"[\w.\-]+", branches[1]) if branches else [
                    instruction.named("true_computation"), instruction.named("false_computation")
                ]  # fmt: skip
                total.add(min(map(self.cost, names), key=lambda cost: cost.traffic))
            elif instruction.operation == "call":
                total.add(self.cost(instruction.named("to_apply")))
            else:
                total.kernels += 1
                if not instruction.name.startswith(_BEGUN):
                    total.traffic += self._traffic(instruction, computation)
                    if not instruction.named("calls").startswith(_CARRIED):
                        total.collectives += self._collectives(instruction)
        return total

    def _steps(self, loop: _Instruction) -> int | None:
        """How often a loop runs; None if that is not known before."""
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(known[1])
        # TPU programs do not say so. JAX's own loops count from 0 up to a constant.
        until = self._computations.get(loop.named("condition"))
        root = list(until.values())[-1] if until else None
        if not until or root is None or root.operation != "compare" or "direction=LT" not in root.attributes:
            return None
        counter, most = (until[operand] for operand in root.operands)
        constant = re.match(r"(\d+)\)", most.attributes)
        return int(constant[1]) if counter.operation == "get-tuple-element" and constant else None

    def _collectives(self, instruction: _Instruction) -> Counter[str]:
        """An instruction that is a collective, or those inside a kernel, wherever their results are."""
        if _COLLECTIVE.match(instruction.operation):
            return Counter([instruction.operation.removesuffix("-start")])
        return sum(map(self._collectives, self._called(instruction).values()), Counter())

    def _traffic(self, instruction: _Instruction, computation: _Computation) -> float:
        shapes = dict(enumerate(computation[operand].shape for operand in instruction.operands))
        written = 0.0
        if instruction.named("calls").startswith(_CARRIED):
            # As in output_to_operand_aliasing={{1}: (0, {}), {2}: (1, {})}: these parts only pass through.
            pairs = re.findall(r"\{(\d+)\}: \((\d+), \{\}\)", instruction.attributes)
            for _, operand in pairs:
                shapes.pop(int(operand), None)
            same = {int(part) for part, _ in pairs}
            parts = enumerate(_ARRAY.finditer(instruction.shape))
            written = sum(_size(array[0]) for part, array in parts if part not in same)
        elif instruction.operation == "custom-call" and instruction.shape.startswith("("):
            # The last part of cuBLAS's and cuDNN's results is their scratch.
            written = _size(re.sub(r"[su]8\[[^\]]*\](\{[^}]*\})?\)$", "", instruction.shape))
        elif instruction.returns_operands:
            written = max(0.0, _size(instruction.shape) - sum(map(_size, shapes.values())))
        else:
            written = min(_size(instruction.shape), self._result(instruction, computation, inside=False))
        return written + sum(min(_size(shape), self._read(instruction, at, shape)) for at, shape in shapes.items())

    def _read(self, instruction: _Instruction, place: int, shape: str) -> float:
        """The bytes that an instruction takes of an operand that is anywhere in memory."""
        whole = _size(shape, anywhere=True)
        if inner := self._called(instruction):
            for parameter in inner.values():
                if parameter.operation == "parameter" and parameter.attributes.startswith(f"{place})"):
                    return min(whole, self._used(inner, parameter.name, shape))
            return whole
        if place == 0 and instruction.operation.removesuffix("-start") in _PARTS:
            taken = _size(instruction.shape, anywhere=True)
            return min(whole, taken - whole if instruction.returns_operands else taken)
        return 0.0 if place == 0 and instruction.operation in _UPDATES else whole

    def _used(self, inner: _Computation, name: str, shape: str) -> float:
        """The bytes of a value that are taken inside a kernel."""
        uses = [(user, place) for user in inner.values() for place, used in enumerate(user.operands) if used == name]
        return sum(
            self._used(inner, user.name, shape) if user.operation == "bitcast" else self._read(user, place, shape)
            for user, place in uses
        )

    def _result(self, instruction: _Instruction, computation: _Computation, *, inside: bool) -> float:
        """The bytes that an instruction, or the kernel whose root it is, writes."""
        if instruction.operation == "fusion" and (inner := self._called(instruction)):
            return self._result(list(inner.values())[-1], inner, inside=True)
        operands = [computation[operand] for operand in instruction.operands]
        if instruction.operation in ("tuple", "bitcast"):
            return sum(self._result(operand, computation, inside=inside) for operand in operands)
        if instruction.operation not in _UPDATES:
            return _size(instruction.shape, anywhere=True)
        changed = operands[0]
        while changed.operation == "bitcast":
            changed = computation[changed.operands[0]]
        # An array that the kernel itself makes is written as a whole; one from before is changed where it is.
        made = inside and changed.operation != "parameter"
        return _size((instruction if made else operands[_UPDATES[instruction.operation]]).shape, anywhere=True)


def _instructions(body: str) -> Iterator[_Instruction]:
    for line in body.splitlines():
        if match := re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$", line):
            operands = tuple(re.findall(r"%([\w.\-]+)", match[4].split(")")[0]))
            yield _Instruction(match[1], match[2], match[3], operands, match[4])


def _size(shape: str, *, anywhere: bool = False) -> float:
    """The bytes of a shape, or of all parts of a tuple, that are in main memory, or anywhere."""
    total = 0.0
    for kind, extents, layout in _ARRAY.findall(shape):
        if anywhere or not re.search(r"S\([1-9]", layout):
            each = _BYTES.get(kind) or int(re.sub(r"\D", "", kind) or 0) / 8
            total += each * float(np.prod([int(extent) for extent in extents.split(",") if extent]))
    return total
