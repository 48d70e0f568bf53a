"""Starts the driver in an ordinary CPython: `python3 -I -X utf8 main.py [--zygote …]`.

Without arguments it serves one session on descriptors 3 (requests) and 4 (answers).
With `--zygote` it waits on them for orders to fork sessions; see
belljar_native/zygote.py.
"""

import sys

# What a program gets to see is not this file, so nothing of ours may live in `__main__`.
HERE = __file__.rpartition("/")[0] or "."
OURS = [HERE, HERE + "/../driver"]


def main(arguments):
    sys.path[:0] = OURS
    from belljar_native import assemble

    assemble.load()
    if arguments[:1] == ["--zygote"]:
        from belljar_native import zygote as mode
    else:
        from belljar_native import serve as mode
    # The user's modules may have any name: ours are loaded by now.
    del sys.path[: len(OURS)]
    mode.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
