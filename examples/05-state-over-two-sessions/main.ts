// Continue work in another session: variables end with the session, files in /workspace are kept.

import { read_text_file } from "servers/files";

const STATE = "state/invoices.json";
const A_DAY = 2;

let state = { next: 1, total: 0, sessions: 0 };
try {
  state = JSON.parse(readFile(STATE));
} catch {
  // There is no state in the first session.
}

state.sessions += 1;
const end = Math.min(state.next + A_DAY, 5);
for (let number = state.next; number < end; number += 1) {
  const invoice = JSON.parse((await read_text_file({ path: `invoice-${number}.json` })).content);
  state.total += invoice.total;
  state.next = number + 1;
}

writeFile(STATE, JSON.stringify(state));
console.log(`session ${state.sessions}: invoices up to ${state.next - 1}, ${state.total} in all`);
const result = state.next > 4 ? "done" : "to be continued";
