// Inside a sandbox: the calls of one row. `plan` is set by the benchmark.
// The clock is too coarse for a single call, so only the total is measured.
import * as bench from "servers/bench";

declare const plan: { tool: "echo" | "nap"; text: string; at_once: number; warm_up: number; calls: number };

async function calls(count: number): Promise<void> {
  let left = count;
  async function worker(): Promise<void> {
    while (left > 0) {
      left -= 1;
      const answer: any = await bench[plan.tool]({ text: plan.text });
      if (answer !== plan.text && answer?.result !== plan.text) {
        throw new Error(`unexpected result: ${JSON.stringify(answer)}`);
      }
    }
  }
  await Promise.all(Array.from({ length: plan.at_once }, worker));
}

await calls(plan.warm_up);
const begun = Date.now();
await calls(plan.calls);
({ each: [], total: (Date.now() - begun) * 1000 });
