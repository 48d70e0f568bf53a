"""Bad input ends in a Python exception, never in a trap: run.sh hostile.

A trap would end the sandbox, and this script with it before its last line.
"""

import os
import sys
import warnings

sys.path.append(os.path.dirname(sys.argv[0]))
import hostile_calls  # noqa: E402, F401
import hostile_files  # noqa: E402, F401
from hostile_registry import ATTACKS  # noqa: E402

VERBOSE = "-v" in sys.argv
warnings.simplefilter("ignore")
failed = 0
for function, kinds in ATTACKS:
    if VERBOSE:
        print(function.__name__, end=" ", flush=True)
    try:
        function()
        outcome = None
    except Exception as error:
        outcome = error
    good = isinstance(outcome, kinds) if kinds else outcome is None
    failed += not good
    if VERBOSE or not good:
        print(f"{'ok' if good else 'WRONG'} {function.__name__}: {type(outcome).__name__}: {str(outcome)[:150]}", flush=True)
print(f"{len(ATTACKS)} attacks, {failed} wrong")
sys.exit(failed > 0)
