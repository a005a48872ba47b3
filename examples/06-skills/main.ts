// A skill is saved code: tested when it is saved, and imported by later programs.

import { list_skills, save_skill } from "coracle";
import { read_text_file } from "servers/files";

const CODE = `
/** Adds up the column \`of\` of a CSV text for each value of the column \`by\`. */
export function totals(text: string, by: string, of: string): Record<string, number> {
  const [header, ...lines] = text.trimEnd().split("\\n").map((line) => line.split(","));
  const sums: Record<string, number> = {};
  for (const line of lines) {
    const key = line[header.indexOf(by)];
    sums[key] = (sums[key] ?? 0) + Number(line[header.indexOf(of)]);
  }
  return sums;
}
`;

// The example runs in a separate sandbox first. If it fails, the skill is not saved.
const EXAMPLE = `
import { totals } from "skills/totals";
if (totals("a,b\\nx,1\\nx,2\\n", "a", "b").x !== 3) throw new Error("wrong");
`;

let result: unknown;
const known = (await list_skills()).map((skill) => skill.name);
if (!known.includes("totals")) {
  const description = "Adds up a column of a CSV text, grouped by another";
  await save_skill("totals", CODE, { description, tags: ["csv", "report"], example: EXAMPLE });
  console.log("saved: the next program can import it");
  result = (await list_skills()).map((skill) => skill.name);
} else {
  const { totals } = await import("skills/totals");
  const sums = totals((await read_text_file({ path: "hours.csv" })).content, "team", "hours");
  for (const team of Object.keys(sums).sort()) {
    console.log(`${team}: ${sums[team]}`);
  }
  result = "imported";
}
