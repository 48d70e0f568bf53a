"""Code in the sandbox calls functions of this program."""

import sqlite3

from belljar import create_sandbox

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table orders (customer text, amount integer)")
database.executemany("insert into orders values (?, ?)", [("Ann", 12), ("Bob", 30), ("Ann", 5)])


def orders_of(customer: str) -> list[int]:
    """The amounts of everything a customer has ordered."""
    found = database.execute("select amount from orders where customer = ?", [customer])
    return [amount for (amount,) in found]


async def approve(amount: int) -> bool:
    """Whether somebody agrees to spend that much."""
    return amount < 20


with create_sandbox(tools=[orders_of, approve]) as sandbox:
    print(sandbox.tool_descriptions)
    result = sandbox.execute(
        "import asyncio\n"
        "totals = {name: sum(orders_of(name)) for name in ('Ann', 'Bob')}\n"
        "allowed = await asyncio.gather(*(approve(total) for total in totals.values()))\n"
        "print(totals, allowed)"
    )
    print(result.stdout, result.meta.tools.calls)
