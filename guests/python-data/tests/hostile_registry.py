"""Where the attacks of hostile.py are gathered."""

ATTACKS = []


def attack(*kinds):
    """Registers a function that must raise one of `kinds`, or nothing at all if there are none."""

    def register(function):
        ATTACKS.append((function, kinds))
        return function

    return register
