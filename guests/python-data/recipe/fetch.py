"""Downloads single files of packages through pip, without building anything.

    python3 fetch.py DEST sdist|wheel NAME==VERSION…

`pip download` of an sdist would first build its metadata, which for numpy means configuring
it. So this asks pip's own index machinery, which knows how this machine reaches the registry,
for the file and fetches only that.
"""

import hashlib
import sys
from pathlib import Path

from pip._internal.commands.download import DownloadCommand
from pip._internal.models.target_python import TargetPython

# The tools run under the native build of the guest's CPython.
TARGET = TargetPython(
    py_version_info=(3, 13, 0),
    platforms=["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_12_x86_64"],
)


def main(dest, kind, *wanted):
    command = DownloadCommand("download", "")
    options, _ = command.parse_args(["--no-deps"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, target_python=TARGET)
        for item in wanted:
            fetch(finder, session, Path(dest), kind, item)


def fetch(finder, session, dest, kind, item):
    name, _, version = item.partition("==")
    candidates = [
        candidate
        for candidate in finder.find_all_candidates(name)
        if str(candidate.version) == version and candidate.link.is_wheel == (kind == "wheel")
    ]
    if not candidates:
        sys.exit(f"the registry has no {kind} of {item}")
    # The wheel made most exactly for the target.
    link = finder.make_candidate_evaluator(name).sort_best_candidate(candidates).link
    answer = session.get(link.url_without_fragment)
    answer.raise_for_status()
    digest = hashlib.sha256(answer.content).hexdigest()
    if link.hash and link.hash_name == "sha256" and link.hash != digest:
        sys.exit(f"{link.filename}: the registry promises {link.hash}, it gave {digest}")
    (dest / link.filename).write_bytes(answer.content)
    print(link.filename, digest)


if __name__ == "__main__":
    main(*sys.argv[1:])
