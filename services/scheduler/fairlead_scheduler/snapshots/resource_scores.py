"""The resource score of a job: what a second of its run costs in a queue with `order: fair` (G9).

It is the sum of weight x amount over its resources, in thousandths: a GPU weighs 100, a CPU 1, a
GiB of memory 0.1, and anything else nothing unless the setting `scoreWeights` names it.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.scheduling import quantities

GPU_SUFFIX: Final = "gpu"
"""Resources with names that end so count as GPUs, of any manufacturer."""
GPU_WEIGHT: Final = 100.0
WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {quantities.CPU: 1.0, quantities.MEMORY: 0.1}
)
"""Per CPU and per GiB."""
THOUSANDTHS: Final = 1000
TERM_MAX: Final = 1e12
"""No resource adds more to a score, in thousandths: sums stay whole numbers."""
_CPU_UNIT: Final = 1000
_GIB: Final = 1 << 30


def weight_of(resource: str, weights: Mapping[str, float]) -> float:
    """The weight of a resource per CPU, per GiB, or per piece. `weights`: those of the settings."""
    if resource in weights:
        return weights[resource]
    return GPU_WEIGHT if resource.endswith(GPU_SUFFIX) else WEIGHTS.get(resource, 0.0)


def score_shapes(
    names: Sequence[str], request: npt.NDArray[np.int64], weights: Mapping[str, float]
) -> npt.NDArray[np.float64]:
    """[S] scores of these requests ([S, R], of resources with these names), in thousandths."""
    score = np.zeros(request.shape[0])
    for r, name in enumerate(names):
        factor = _factor(name, weights)
        if factor:
            score += np.minimum(np.rint(request[:, r] * factor), TERM_MAX)
    return score


def score_use(used: Iterable[tuple[str, int]], weights: Mapping[str, float]) -> float:
    """The weighted running time, in thousandths x seconds, of resources that were used: (name,
    amount x milliseconds)."""
    return sum(float(round(amount * _factor(name, weights) / 1000)) for name, amount in used)


def _factor(resource: str, weights: Mapping[str, float]) -> float:
    """What an amount in the unit of the resource is multiplied with."""
    unit = 1
    if resource == quantities.CPU:
        unit = _CPU_UNIT
    elif quantities.is_divisible(resource):
        unit = _GIB
    return weight_of(resource, weights) * THOUSANDTHS / unit
