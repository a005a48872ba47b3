// Running the code of a card again, as it is or edited. The agent does not hear of it.

import { get, part, send } from './api';
import type { CodeEntry, NestedCall } from './entries.svelte';
import { callsOf, type Outcome as Recorded } from './executions';
import type { Outcome } from './outcome';
import { type Artifact, fromEvent } from './artifacts';

/** How the code ran before. */
export type Before = { language: string; session: string | null };

/** What the server has recorded; without a record, the language is guessed, and the sandbox is a fresh one. */
export async function before(entry: CodeEntry): Promise<Before> {
  const found = entry.execution
    ? await get<{ language: string; session_id: string | null }>(`/api/executions/${part(entry.execution)}`).catch(() => null)
    : null;
  return { language: found?.language ?? entry.language, session: found?.session_id ?? null };
}

export type Rerun = { isSuccess: boolean; outcome: Outcome; calls: NestedCall[]; artifacts: Artifact[]; ms: number; file: string };
type Answer = Outcome & Recorded & { success: boolean; artifacts?: unknown[]; output_file?: string | null };

/** Runs code. Calls that need an approval wait for it; the signal also stops the code. */
export async function run(code: string, { language, session }: Before, signal: AbortSignal): Promise<Rerun> {
  const body = { code, language, ...(session ? { session } : {}) };
  const answer = (await (await send('POST', '/api/executions?approvals=wait', body, {}, signal)).json()) as Answer;
  return {
    isSuccess: answer.success,
    outcome: answer,
    calls: callsOf(answer.calls ?? []),
    artifacts: (answer.artifacts ?? []).map(fromEvent).filter((one) => one !== null),
    ms: answer.execution_time_ms ?? 0,
    file: answer.output_file ?? '',
  };
}
