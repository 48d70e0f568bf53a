"""The same through MCP, as an agent does it. Needs the package `mcp`, and `belljar` on the PATH or
named as the first argument."""

import asyncio
import base64
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

HERE = Path(__file__).parent


async def main() -> None:
    belljar = sys.argv[1] if len(sys.argv) > 1 else "belljar"
    server = StdioServerParameters(command=belljar, args=["mcp"])
    async with Client(server) as client:

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result

        made = await call("create_session", image="data")
        session = made.structured_content["session_id"]
        await call(
            "write_file",
            session_id=session,
            path="sales.csv",
            content=(HERE / "sales.csv").read_text(),
        )
        ran = await call(
            "execute_code", session_id=session, code=(HERE / "report.py").read_text()
        )
        print(ran.structured_content["stdout"])
        for block in ran.content:
            if block.type == "image":
                print(block.mime_type, len(base64.b64decode(block.data)) > 1000)


asyncio.run(main())
