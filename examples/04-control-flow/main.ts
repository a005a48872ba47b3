// Use the loops, conditions and errors of the language: one program instead of a round trip for every decision.

import { ToolError } from "coracle";
import { read_text_file, write_file } from "servers/files";

const ATTEMPTS = 3;
const settings: Record<string, { replicas: number }> = {};

for (const name of ["db", "web", "cache"]) {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    try {
      settings[name] = JSON.parse((await read_text_file({ path: `${name}.json` })).content);
      console.log(`${name}: ${settings[name].replicas} replicas`);
    } catch (error) {
      if (error instanceof ToolError) {
        // The tool failed. A retry is only worthwhile if the error says so.
        if (error.retryable && attempt < ATTEMPTS) continue;
        console.log(`${name}: skipped, ${error.server}.${error.tool} failed (${error.code})`);
      } else if (error instanceof SyntaxError) {
        console.log(`${name}: skipped, its file is damaged`);
      } else {
        throw error;
      }
    }
    break;
  }
}

try {
  await write_file({ path: "summary.txt", content: JSON.stringify(settings) });
} catch (error) {
  if (!(error instanceof ToolError)) throw error;
  console.log(`not written: ${error.code}`);
}

const result = Object.keys(settings).sort();
