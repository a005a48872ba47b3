// Five hundred rows come in, four lines go out: data that a model does not need stays in the sandbox.

import { read_text_file } from "servers/files";

const [header, ...lines] = (await read_text_file({ path: "orders.csv" })).content.trimEnd().split("\n");
const names = header.split(",");
const rows = lines.map((line) => Object.fromEntries(line.split(",").map((value, n) => [names[n], value])));
const late = rows.filter((row) => row.status === "late" && Number(row.amount) > 200);

const cents: Record<string, number> = {};
for (const row of late) {
  cents[row.region] = (cents[row.region] ?? 0) + Math.round(Number(row.amount) * 100);
}

console.log(`${rows.length} orders, of which ${late.length} are late and above 200`);
const regions = Object.keys(cents).sort();
for (const region of regions) {
  console.log(`${region}: ${(cents[region] / 100).toFixed(2)}`);
}
const result = regions.reduce((most, region) => (cents[region] > cents[most] ? region : most));
