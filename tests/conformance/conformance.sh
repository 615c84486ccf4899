#!/bin/sh
# Run the suite; make its virtual environment first when that is missing or
# does not match requirements.txt.  All arguments go to run.py.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
venv=${CONFORMANCE_VENV:-$here/.venv}
"$here/../lib/make-venv" "$venv" "$here/requirements.txt"
exec "$venv/bin/python" "$here/run.py" "$@"
