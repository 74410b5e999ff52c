#!/bin/sh
# Makes .venv. `run`: what Fairlead needs to run; `kubernetes`: also the client of `--kubeconfig`;
# `dev`: also what checks and tests need.
# `airflow` makes an environment of its own in a folder: Airflow and what the provider in
# clients/airflow needs, for its tests.
# `wheels` makes no environment, but a wheel of every member in a folder (default: dist/).
# Needs Python 3.11 to 3.13 with pip and nothing else; what is missing is named with its install line.
set -eu
cd "$(dirname "$0")/.."
kind=${1:?usage: setup.sh run|kubernetes|dev|wheels|airflow [FOLDER]}
uv_version=0.13.8

say() { printf '%s\n' "fairlead: $*" >&2; }

find_python() {
    for name in python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    say "no Python 3.11, 3.12 or 3.13 on the path. Install it: apt-get install -y python3 python3-pip"
    exit 1
}

# A uv on the path that is new enough for the lock file, else one in .tools/, fetched by pip once.
find_uv() {
    if command -v uv >/dev/null && "$1" - "$(uv --version)" "$uv_version" <<'END'
import re, sys
have, need = (tuple(map(int, re.search(r"(\d+)\.(\d+)\.(\d+)", text).groups())) for text in sys.argv[1:])
sys.exit(not need <= have < (need[0], need[1] + 1))
END
    then
        command -v uv
        return
    fi
    if [ ! -x ".tools/uv-$uv_version/bin/uv" ]; then
        if ! "$1" -m pip --version >/dev/null 2>&1; then
            say "Python has no pip. Install it: apt-get install -y python3-pip"
            exit 1
        fi
        say "fetching uv $uv_version into .tools/"
        rm -rf .tools/uv-new
        "$1" -m pip install --quiet --disable-pip-version-check --no-warn-script-location \
            --root-user-action=ignore --target .tools/uv-new "uv==$uv_version" >&2
        mv .tools/uv-new ".tools/uv-$uv_version"
    fi
    printf '%s\n' "$PWD/.tools/uv-$uv_version/bin/uv"
}

python=$(find_python)
uv=$(find_uv "$python")
export UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv
unset VIRTUAL_ENV
if [ "$kind" = wheels ]; then
    "$uv" build --quiet --wheel --out-dir "${2:-dist}/airflow" --python "$python" clients/airflow
    exec "$uv" build --quiet --all-packages --wheel --out-dir "${2:-dist}" --python "$python"
fi
if [ "$kind" = airflow ]; then
    UV_PROJECT_ENVIRONMENT=${2:?usage: setup.sh airflow FOLDER} exec "$uv" sync --quiet --frozen \
        --project clients/airflow --no-install-project --no-install-package fairlead --compile-bytecode \
        --group test --python "$python"
fi
say "making .venv ($kind) with $("$python" --version)"
if [ "$kind" = dev ]; then
    "$uv" sync --quiet --frozen --python "$python"
    touch .venv/.ready-dev .venv/.ready-kubernetes
else
    # --inexact: what the tests need stays when it is there already
    "$uv" sync --quiet --frozen --no-dev --inexact --python "$python"
fi
if [ "$kind" = kubernetes ]; then
    # Without --python: given a path, uv makes the environment again for another package.
    "$uv" sync --quiet --frozen --no-dev --inexact --package fairlead-executor --extra kubernetes
    touch .venv/.ready-kubernetes
fi
touch .venv/.ready-run
