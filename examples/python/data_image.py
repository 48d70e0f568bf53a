"""A table and a chart with pandas and matplotlib: nothing to install, code gets what it imports."""

from __future__ import annotations

import base64
from pathlib import Path

from belljar import ExecutionPolicy, create_sandbox

EXAMPLE = Path(__file__).parent.parent / "data"

with create_sandbox(policy=ExecutionPolicy.agent(image="data")) as sandbox:
    sandbox.initialize()
    sandbox.write_file("sales.csv", (EXAMPLE / "sales.csv").read_text())
    ran = sandbox.execute((EXAMPLE / "report.py").read_text())
    print(ran.stdout)
    assert ran.result is not None, ran.stderr
    chart = base64.b64decode(ran.result.mime["image/png"])
    print(chart[1:4].decode(), ran.meta.image)
    table = sandbox.execute("table.round(1)")
    assert table.result is not None, table.stderr
    print("<table" in table.result.mime["text/html"])
