"""Makes `cooling.csv`: the same bytes every time.

The numbers are not measured. They are drawn from Newton's law of cooling for a cup of coffee in a
room whose heating goes on and off, with the noise of a cheap thermometer:

    temperature(t) = room + (start - room) * exp(-t / tau) + swing * sin(2 pi t / period) + noise

so that a good model of them is neither the simplest nor the most complicated one of the sweep.
"""

import math
import random
from pathlib import Path

AMBIENT, START, TAU_MIN = 21.0, 86.0, 24.0
SWING, PERIOD_MIN, NOISE = 1.6, 37.0, 0.45
SAMPLES, STEP_MIN = 240, 0.5


def rows() -> list[str]:
    """The lines of the file."""
    chance = random.Random(20240229)
    lines = ["minutes,celsius"]
    for number in range(SAMPLES):
        t = number * STEP_MIN
        value = AMBIENT + (START - AMBIENT) * math.exp(-t / TAU_MIN)
        value += SWING * math.sin(2 * math.pi * t / PERIOD_MIN) + chance.gauss(0.0, NOISE)
        lines.append(f"{t:.1f},{value:.2f}")
    return lines


if __name__ == "__main__":
    (Path(__file__).parent / "cooling.csv").write_text("\n".join(rows()) + "\n")
