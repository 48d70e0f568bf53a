"""A hundred executions at once with asyncio, and output while code runs."""

import asyncio

from belljar import AsyncSandbox


async def main() -> None:
    """Runs both."""
    sandboxes = [AsyncSandbox() for _ in range(10)]
    results = await asyncio.gather(
        *(sandboxes[n % 10].execute(f"sum(range({n}))") for n in range(100))
    )
    assert [result.value for result in results] == [sum(range(n)) for n in range(100)]
    await asyncio.gather(*(sandbox.destroy() for sandbox in sandboxes))

    async with AsyncSandbox(stream=True) as sandbox:
        stream = sandbox.stream("for word in 'one', 'two': print(word)\nlen(word)")
        async for line in stream:
            print(line.stream, line.text, end="")
        print((await stream.result()).value)


asyncio.run(main())
