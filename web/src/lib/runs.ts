// Runs of the agent, over all conversations. The API lists them by conversation.

import { get, part, post } from './api';
import type { Item } from './items';

export type Run = {
  id: string;
  model: string;
  state: string;
  background: boolean;
  created_at: string;
  ended_at?: string | null;
  message?: string | null;
  input_tokens?: number | null;
  output_tokens?: number | null;
};
export type Conversation = { id: string; title?: string | null; preview?: string | null; running?: string | null };
/** The newest runs of a conversation. */
export type Group = { conversation: Conversation; runs: Run[] };

/** Number of conversations that are loaded at once, of runs of each, and of requests at the same time. */
export const PAGE = 20;
const RUNS = 5;
const AT_ONCE = 3;

export async function runsOf(conversation: Conversation): Promise<Group> {
  const path = `/api/conversations/${part(conversation.id)}/runs?limit=${RUNS}`;
  const { runs } = await get<{ runs: Run[] }>(path);
  return { conversation, runs };
}

/** The runs of the next conversations, the last changed first. */
export async function page(before?: string): Promise<Group[]> {
  const query = new URLSearchParams({ limit: String(PAGE), ...(before ? { before } : {}) });
  const { conversations } = await get<{ conversations: Conversation[] }>(`/api/conversations?${query}`);
  const groups: Group[] = [];
  for (let at = 0; at < conversations.length; at += AT_ONCE) {
    groups.push(...(await Promise.all(conversations.slice(at, at + AT_ONCE).map(runsOf))));
  }
  return groups;
}

export const stop = (conversation: string): Promise<unknown> => post(`/api/conversations/${part(conversation)}/stop`);

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
