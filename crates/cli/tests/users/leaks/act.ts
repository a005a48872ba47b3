// Does with each record what code does with data.
import { echo, fail, narrow, records } from "servers/people";

const leaves = (value) => {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(leaves);
  if (value && typeof value === "object") return Object.entries(value).flatMap(([key, inner]) => [key, ...leaves(inner)]);
  return [];
};
const attempt = async (action) => {
  try {
    return await action();
  } catch (error) {
    console.log(String(error), error.message);
    return null;
  }
};
const bytes = (text) => new TextEncoder().encode(text);
const hex = (text) => Array.from(bytes(text), (byte) => byte.toString(16).padStart(2, "0")).join("");
const base64 = (text) => btoa(String.fromCharCode(...bytes(text)));

const found = (await records({ batch: BATCH, form: "structured" })).records;
const kept = [];
for (const [number, record] of found.entries()) {
  const act = (number + FIRST) % 11;
  const text = JSON.stringify(record);
  const values = leaves(record);
  if (act === 0) console.log(text);
  else if (act === 1) console.log(record, values);
  else if (act === 2) console.log(base64(text), values.map(base64));
  else if (act === 3) console.error(hex(text), ...values.map(hex));
  else if (act === 4) console.log(encodeURIComponent(text), ...values.map(encodeURIComponent), ...values.map(escape));
  else if (act === 5) console.log(await attempt(() => echo({ value: record })));
  else if (act === 6) await attempt(() => narrow({ value: text }));
  else if (act === 7) await attempt(() => fail({ value: record }));
  else if (act === 8) writeFile(`/workspace/${BATCH}-${number}.json`, text);
  else if (act === 9) writeFile(`/artifacts/${values[0].replaceAll("/", " ").slice(0, 60)}.txt`, text);
  else kept.push(record);
}
for (const form of ["text", "lines", "blob", "error", "refused"]) {
  console.log(form, await attempt(() => records({ batch: BATCH, form, first: FIRST % 3, count: 4 })));
}
if (FIRST % 2) throw new Error(JSON.stringify(found.slice(-3)));
({ kept, last: found[0] });
