// Has the server killed and started again. The test does that, and answers on standard input.

import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function asked(what) {
  process.stdout.write(`${what}\n`);
  const { value } = await lines.next();
  if (value !== 'done') throw new Error(`${what}: ${value}`);
}

/** Kills the server. */
export const kill = () => asked('kill');

/** Starts it again at the same address. */
export const start = () => asked('start');

/** Lets this program end. */
export const close = () => process.stdin.destroy();
