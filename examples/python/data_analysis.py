"""A data-analysis session: files go in, a model's code works on them, files come out."""

from __future__ import annotations

from _model import Message, Model, code_of

from belljar import ExecutionPolicy, create_sandbox
from belljar.adapters import CodeTool

ROWS = "month,city,degrees\n1,Oslo,-4\n7,Oslo,17\n1,Rome,8\n7,Rome,26\n"
TASK = (
    "weather.csv has the columns month, city and degrees. Write the mean of each city to "
    "means.csv, with the columns city and mean. Reply with Python code in one block."
)
SCRIPT = [
    "```python\n"
    "import csv, statistics\n"
    "by_city = {}\n"
    "for row in csv.DictReader(open('weather.csv')):\n"
    "    by_city.setdefault(row['city'], []).append(float(row['degrees']))\n"
    "with open('means.csv', 'w', newline='') as file:\n"
    "    writer = csv.writer(file)\n"
    "    writer.writerow(['city', 'mean'])\n"
    "    writer.writerows((city, statistics.mean(all)) for city, all in by_city.items())\n"
    "```",
]

messages: list[Message] = [{"role": "user", "content": TASK}]
with create_sandbox(policy=ExecutionPolicy.agent()) as sandbox:
    sandbox.initialize()
    sandbox.write_file("weather.csv", ROWS)
    print(CodeTool(sandbox).run(code_of(Model(SCRIPT).reply(messages)) or ""))
    print([entry.path for entry in sandbox.list_files()])
    print(sandbox.read_file("means.csv").decode())
