// The record of an execution that a conversation shows: its calls, its isolation and its limits.

import { ApiError, get, part } from './api';
import type { CodeEntry, NestedCall } from './entries.svelte';

/** A call as the server keeps it, without arguments. */
export type Call = {
  server: string;
  tool: string;
  ok: boolean;
  code: string | null;
  began_ms?: number;
  ms: number;
  bytes_in: number;
  bytes_out: number;
};

/** The sandbox of an execution. */
export type Sandbox = {
  session?: string | null;
  session_restarted?: boolean;
  limits?: {
    requested: { wall_ms: number; memory_mb: number; processes: number; calls: number };
    enforced: { wall: string; memory: string; processes: string } | null;
    tier: string;
  };
};

/** The result of an execution; one that was interrupted may lack most of it. */
export type Outcome = Sandbox & { success?: boolean; execution_time_ms?: number; calls?: Call[] };

/** The result of the execution that an entry shows; `null` if the server does not have it. */
export async function findOutcome({ execution }: CodeEntry): Promise<Outcome | null> {
  if (!execution) return null;
  try {
    return (await get<{ outcome: Outcome | null }>(`/api/executions/${part(execution)}`)).outcome;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Calls as a timeline. Records have them in the order in which they ended. */
export const callsOf = (calls: readonly Call[]): NestedCall[] =>
  calls
    .toSorted((one, other) => (one.began_ms ?? 0) - (other.began_ms ?? 0))
    .map((call, index) => ({
      number: index + 1,
      server: call.server,
      tool: call.tool,
      arguments: '',
      progress: call.ok ? 'done' : 'failed',
      began: call.began_ms,
      ms: call.ms,
      bytesIn: call.bytes_in,
      bytes: call.bytes_out,
      code: call.code ?? '',
    }));

/** Short calls can still be seen, also at the end. In percent. */
const MIN_WIDTH = 2;
const MAX_LEFT = 100 - MIN_WIDTH;

/** Where the bar of a call begins and how wide it is, in percent of the time from the first call to the end of the last. */
export type Bar = { left: number; width: number };

/** The bars of calls. A call that goes on reaches to the end; without times of begin, only durations are compared. */
export function barsOf(calls: readonly NestedCall[]): Map<number, Bar> {
  const isTimed = calls.every((call) => call.began !== undefined);
  const beginOf = (call: NestedCall): number => (isTimed ? (call.began ?? 0) : 0);
  const begin = Math.min(...calls.map(beginOf));
  const end = Math.max(...calls.map((call) => beginOf(call) + (call.ms ?? 0)));
  const all = Math.max(1, end - begin);
  return new Map(
    calls.map((call) => {
      const left = Math.min(MAX_LEFT, (100 * (beginOf(call) - begin)) / all);
      const width = call.progress === 'running' ? 100 - left : (100 * (call.ms ?? 0)) / all;
      return [call.number, { left, width: Math.min(100 - left, Math.max(MIN_WIDTH, width)) }];
    }),
  );
}
