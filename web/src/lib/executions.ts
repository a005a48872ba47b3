// The record of an execution that a conversation shows: its calls, its isolation and its limits.

import { ApiError, get, part } from './api';
import type { CodeEntry, NestedCall } from './entries.svelte';

/** A call as the server keeps it, without arguments. */
export type Call = { server: string; tool: string; ok: boolean; code: string | null; ms: number; bytes_out: number };

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

/** Calls as a timeline. */
export const callsOf = (calls: readonly Call[]): NestedCall[] =>
  calls.map((call, index) => ({
    number: index + 1,
    server: call.server,
    tool: call.tool,
    arguments: '',
    progress: call.ok ? 'done' : 'failed',
    ms: call.ms,
    bytes: call.bytes_out,
    code: call.code ?? '',
  }));
