"""What the jobs run: `fit CSV DEGREE PENALTY RESULT`, or `best FOLDER NUMBER`.

A fit is a polynomial of the time by ridge regression (least squares with a penalty on large
coefficients), judged by the root mean square of its errors on points that it has not seen
(cross-validation, every k-th point left out in turn). Standard library only.
"""

import csv
import json
import math
import sys
from pathlib import Path

FOLDS = 8
Row = tuple[float, float]


def read(file: Path) -> list[Row]:
    """(time scaled to -1 .. 1, temperature) of every line."""
    with file.open(newline="") as opened:
        rows = [(float(row["minutes"]), float(row["celsius"])) for row in csv.DictReader(opened)]
    last = max(minutes for minutes, _ in rows)
    return [(2 * minutes / last - 1, celsius) for minutes, celsius in rows]


def fit(rows: list[Row], degree: int, penalty: float) -> list[float]:
    """Coefficients of Chebyshev polynomials up to this degree."""
    size = degree + 1
    matrix = [[penalty if i == j and i else 0.0 for j in range(size)] for i in range(size)]
    right = [0.0] * size
    for x, y in rows:
        terms = basis(x, degree)
        for i, term in enumerate(terms):
            right[i] += term * y
            line = matrix[i]
            for j, other in enumerate(terms):
                line[j] += term * other
    return solve(matrix, right)


def basis(x: float, degree: int) -> list[float]:
    """T0(x) .. Tn(x)."""
    terms = [1.0, x]
    while len(terms) <= degree:
        terms.append(2 * x * terms[-1] - terms[-2])
    return terms[: degree + 1]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivoting."""
    size = len(right)
    lines = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(lines[row][column]))
        lines[column], lines[pivot] = lines[pivot], lines[column]
        for row in range(column + 1, size):
            factor = lines[row][column] / lines[column][column]
            for place in range(column, size + 1):
                lines[row][place] -= factor * lines[column][place]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(lines[row][place] * solution[place] for place in range(row + 1, size))
        solution[row] = (lines[row][size] - known) / lines[row][row]
    return solution


def error(rows: list[Row], degree: int, penalty: float) -> float:
    """Root mean square of the errors on points left out."""
    squares = 0.0
    for fold in range(FOLDS):
        seen = [row for index, row in enumerate(rows) if index % FOLDS != fold]
        model = fit(seen, degree, penalty)
        for x, y in rows[fold::FOLDS]:
            guess = sum(a * t for a, t in zip(model, basis(x, degree), strict=True))
            squares += (guess - y) ** 2
    return math.sqrt(squares / len(rows))


def result_of(rows: list[Row], degree: int, penalty: float) -> dict[str, float]:
    """One point of the sweep."""
    return {"degree": degree, "penalty": penalty, "error": error(rows, degree, penalty)}


def best(results: list[dict[str, float]]) -> dict[str, float]:
    """The smallest error; of equal ones the simpler model."""
    return min(results, key=lambda found: (found["error"], found["degree"], -found["penalty"]))


def write(file: Path, value: object) -> None:
    """Write the file under another name first: a job that is run again leaves no half results."""
    if file.exists() and not file.is_file():
        sys.exit(f"{file} is no plain file, so it is left alone")
    part = file.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.replace(file)


def main() -> None:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["fit", data, degree, penalty, result]:
            found = result_of(read(Path(data)), int(degree), float(penalty))
            write(Path(result), found)
            print(json.dumps(found))
        case ["best", folder, number]:
            files = [Path(folder) / f"{index}.json" for index in range(int(number))]
            found = best([json.loads(file.read_text()) for file in files])
            write(Path(folder) / "best.json", found)
            print(json.dumps(found))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
