"""Jobs and amounts of the plain reading of the rules (reading.py)."""

from __future__ import annotations

from dataclasses import dataclass

Amounts = tuple[int, ...]


def plus(a: Amounts, b: Amounts, sign: int = 1) -> Amounts:
    """Sum or difference of two amounts."""
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


def within(a: Amounts, b: Amounts) -> bool:
    """Whether `a` is no more than `b` in any resource."""
    return all(x <= y for x, y in zip(a, b, strict=True))


@dataclass
class Job:
    """A job in the model. `where`: its node while its room is taken; `home`: its live run's."""

    row: int
    queue: int
    shape: int
    value: int
    kind: int
    priority: int
    started: int
    submission: int
    request: Amounts
    lost: float
    home: int
    run_value: int
    state: str
    where: int = -1
    was_evicted: bool = False


@dataclass
class Decided:
    """What a round decided: job -> node, runs that stop, and the shares it started with."""

    placed: dict[int, int]
    preempted: set[int]
    fair: list[float]
    actual: list[float]


def fill(weight: list[float], demand: list[float], part: list[bool]) -> list[float]:
    """S3: fair shares of the queues that take part."""
    fair = [0.0 for _ in weight]
    left, thirsty = 1.0, {q for q, d in enumerate(demand) if part[q] and d > 0}
    while left >= 1e-6 and thirsty:
        each = left / sum(weight[q] for q in sorted(thirsty))
        left = 0.0
        for q in sorted(thirsty):
            fair[q] += each * weight[q]
            if fair[q] >= demand[q]:
                left += fair[q] - demand[q]
                fair[q] = demand[q]
                thirsty.discard(q)
    return fair
