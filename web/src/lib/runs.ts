// Runs of the agent, in conversations and for programs.

import { ApiError, get, part, post } from './api';
import type { Conversations, Run, Runs } from './generated/api';
import { titleFor } from './history';
import type { Item } from './items';

export type { Run };

/** Number of runs that are loaded at once, and the most that the server lists. */
export const PAGE = 30;
const MAX_LISTED = 100;

async function list(limit: number, before?: string): Promise<Run[]> {
  const query = new URLSearchParams({ limit: String(limit), ...(before ? { before } : {}) });
  return (await get<Runs>(`/api/runs?${query}`)).runs;
}

/** The next runs, the newest first. */
export const page = (last?: Run): Promise<Run[]> => list(PAGE, last?.id);

/** The same runs as they are now, after those that have begun since. */
export async function refreshed(known: Run[]): Promise<Run[]> {
  const found = new Map<string, Run>();
  const isMissing = (run: Run): boolean => run.state === 'running' && !found.has(run.id);
  let next: Run[] = [];
  do {
    next = await list(MAX_LISTED, next.at(-1)?.id);
    for (const run of next) found.set(run.id, run);
  } while (next.length === MAX_LISTED && known.some(isMissing));
  const begun = [...found.values()].filter((run) => run.created_at > (known[0]?.created_at ?? ''));
  return [...begun, ...known.map((run) => found.get(run.id) ?? run)];
}

/** Titles of conversations, by ID. Those that are gone have none. */
export class Titles {
  readonly #known = new Map<string, string>();
  #isListed = false;

  async of(runs: Run[]): Promise<ReadonlyMap<string, string>> {
    if (!this.#isListed) {
      const { conversations } = await get<Conversations>(`/api/conversations?limit=${MAX_LISTED}`);
      for (const one of conversations) this.#known.set(one.id, one.title ?? one.preview ?? '');
      this.#isListed = true;
    }
    for (const { conversation_id: id } of runs) {
      if (!id || this.#known.has(id)) continue;
      this.#known.set(id, await titleFor(id).catch(missing));
    }
    return new Map(this.#known);
  }
}

function missing(error: unknown): string {
  if (error instanceof ApiError && error.status === 404) return '';
  throw error;
}

export const stop = (run: string): Promise<unknown> => post(`/v1/responses/${part(run)}/cancel`);

/** What a run has done so far: the last text, and its executions. */
export async function details(run: string): Promise<{ text: string; executions: number; failed: number }> {
  const { output = [] } = await get<{ output?: Item[] }>(`/v1/responses/${part(run)}`);
  const code = output.filter((item) => item.type === 'code_interpreter_call' || item.type === 'shell_call');
  const last = output.findLast((item) => item.type === 'message');
  return {
    text: (last?.content ?? []).map((one) => one.text ?? '').join(''),
    executions: code.length,
    failed: code.filter((item) => item.status === 'failed').length,
  };
}
