// A session with files: data goes in, code looks at it step by step, a report comes out.

import { createSandbox } from "belljar";

const rows = [["city", "day", "rain"], ["Oslo", 1, 4.5], ["Oslo", 2, 0], ["Rome", 1, 0.5], ["Rome", 2, 1]];

const sandbox = await createSandbox({ onStdout: (line) => process.stdout.write(`  | ${line}`) });
await sandbox.files.write("rain.csv", rows.map((row) => row.join(",")).join("\n"));

await sandbox.execute(`
import csv, collections
rain = collections.defaultdict(list)
for row in csv.DictReader(open("rain.csv")):
    rain[row["city"]].append(float(row["rain"]))
print(len(rain), "cities")
`);
const { result, filesCreated } = await sandbox.execute(`
means = {city: sum(days) / len(days) for city, days in rain.items()}
with open("report.md", "w") as report:
    for city, mean in sorted(means.items()):
        print(f"- {city}: {mean} mm a day", file=report)
means
`);
console.log("value:", result?.json, "files:", filesCreated);
console.log(await sandbox.files.readText("report.md"));
await sandbox.destroy();
