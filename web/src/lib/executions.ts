// The record of an execution that a conversation shows: its calls, its isolation and its limits. Items do not name their
// execution, so it is found by its code, among those that ran during the runs of the conversation.

import { get, part } from './api';
import type { CodeEntry, Entry, NestedCall } from './entries.svelte';
import type { Run } from './runs';

type Call = { server: string; tool: string; ok: boolean; code: string | null; ms: number; bytes_out: number };

/** The result of an execution; one that was interrupted may lack most of it. */
export type Outcome = {
  success?: boolean;
  session?: string | null;
  session_restarted?: boolean;
  execution_time_ms?: number;
  calls?: Call[];
  limits?: {
    requested: { wall_ms: number; memory_mb: number; processes: number; calls: number };
    enforced: { wall: string; memory: string; processes: string } | null;
    tier: string;
  };
};
type Execution = { execution_id: string; started_at: string; code: string; state: string; outcome: Outcome | null };

/** Number of executions and runs that are loaded at once, and how many pages of executions are looked at. */
const PAGE = 50;
const RUNS = 100;
const MAX_PAGES = 20;

/** Whether an execution can be the one that an entry shows. */
function fits(execution: Execution, entry: CodeEntry): boolean {
  if (execution.code !== entry.code || !execution.outcome) return false;
  if (entry.progress === 'stopped') return execution.outcome.success !== true;
  return execution.state === 'done' && execution.outcome.success === (entry.progress === 'done');
}

/** Finds the result of the execution that an entry shows; `null` if the server does not have it. */
export async function findOutcome(conversation: string, entries: readonly Entry[], entry: CodeEntry): Promise<Outcome | null> {
  const { runs } = await get<{ runs: Run[] }>(`/api/conversations/${part(conversation)}/runs?limit=${RUNS}`);
  const spans = runs.map((run) => [Date.parse(run.created_at), run.ended_at ? Date.parse(run.ended_at) : Infinity] as const);
  const begin = Math.min(...spans.map(([first]) => first));
  // The same code may have run several times: entries and executions are in the same order.
  const same = entries.filter((one) => one.kind === 'code' && one.code === entry.code && one.progress === entry.progress);
  let later = same.length - 1 - same.indexOf(entry);
  let before = '';
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const found = await get<Execution[]>(`/api/executions?limit=${PAGE}${before && `&before=${part(before)}`}`);
    for (const execution of found) {
      const started = Date.parse(execution.started_at);
      if (started < begin) return null;
      const isOurs = spans.some(([first, last]) => started >= first && started <= last);
      if (!isOurs || !fits(execution, entry)) continue;
      if (later === 0) return execution.outcome;
      later -= 1;
    }
    before = found.at(-1)?.execution_id ?? '';
    if (found.length < PAGE) return null;
  }
  return null;
}

/** The calls of an execution as a timeline. The server does not keep their arguments. */
export const callsOf = (outcome: Outcome): NestedCall[] =>
  (outcome.calls ?? []).map((call, index) => ({
    number: index + 1,
    server: call.server,
    tool: call.tool,
    arguments: '',
    progress: call.ok ? 'done' : 'failed',
    ms: call.ms,
    bytes: call.bytes_out,
    code: call.code ?? '',
  }));
