"""`python -m tests.e2e.chaos.long_round_leader`: a scheduler that is killed in a long round.

It is the service as it is, with the environment's settings and compiled kernels. Its rounds are
those of the engine until at least `JOBS_MIN` jobs wait; that round decides about the worst pool
known, again and again, and does not end. It is announced by a line on the standard output.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Final

from bench import adversarial
from bench.engine import snapshot as make_snapshot
from fairlead_common.service import settings
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.compiler.decorators import is_compiled
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool
from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.service.service import Service
from fairlead_scheduler.service.settings import SchedulerSettings

JOBS_MIN: Final = 2
BEGUN: Final = "a long round has begun"


def schedule_for_long(
    snapshot: Snapshot,
    settings: EngineSettings,
    *,
    static: StaticPool | None = None,
    explain: bool,
    expired: Callable[[], bool],
    clock_s: Callable[[], float],
) -> Plan:
    """An engine that does not return once enough jobs wait."""
    if (snapshot.job_node == -1).sum() < JOBS_MIN:
        return schedule(
            snapshot, settings, static=static, explain=explain, expired=expired, clock_s=clock_s
        )
    nodes = 4_000 if is_compiled() else 100
    worst = make_snapshot(**adversarial.urgent_gangs_with_rack(nodes))
    sys.stdout.write(BEGUN + "\n")
    sys.stdout.flush()
    while True:
        schedule(worst, adversarial.SETTINGS)


async def main() -> None:
    """Run until killed."""
    compilation.choose_kernels(os.environ)
    async with Service.open(
        settings.load(SchedulerSettings, os.environ), schedule_for_long
    ) as service:
        await service.run()


if __name__ == "__main__":
    asyncio.run(main())
