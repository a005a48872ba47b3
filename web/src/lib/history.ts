// The list of conversations.

import { ApiError, call, get, part, post } from './api';
import type { Conversation, Conversations, Runs } from './generated/api';

export type Summary = { id: string; title: string; changed: string; isRunning: boolean };

/** In characters; the server takes four times as many bytes. */
const MAX_TITLE = 60;

/** The title of a conversation that begins with this message. */
export function titleOf(message: string): string {
  // The server takes no control characters, and half of a character is none.
  const line = [...message.replace(/[\p{Cc}\p{Cs}\s]+/gu, ' ').trim()];
  return line.length > MAX_TITLE ? `${line.slice(0, MAX_TITLE - 1).join('').trimEnd()}…` : line.join('');
}

const shownTitle = (one: Conversation): string => one.title ?? one.preview ?? '';

/** The conversations, the most recent first. */
export async function list(search: string): Promise<Summary[]> {
  const wanted = search.trim();
  const query = new URLSearchParams({ limit: '100', ...(wanted ? { query: wanted } : {}) });
  const { conversations } = await get<Conversations>(`/api/conversations?${query}`);
  return conversations.map((one) => ({
    id: one.id,
    title: shownTitle(one),
    changed: one.changed_at,
    isRunning: Boolean(one.running),
  }));
}

/** Starts a conversation. */
export async function create(title: string): Promise<string> {
  const { id } = await post<Conversation>('/api/conversations', title ? { title } : {});
  return id;
}

export type Shown = { title: string; run: string | null; metadata: Record<string, string> };

/** A conversation without its items, and the run that is under way or the last one. */
export async function show(id: string): Promise<Shown> {
  const [found, run] = await Promise.all([get<Conversation>(`/api/conversations/${part(id)}`), lastRun(id)]);
  // The server takes no other values than texts.
  const metadata = found.metadata as Shown['metadata'];
  return { title: shownTitle(found), run, metadata };
}

/** The run that was started last; `null` if there is none. */
export async function lastRun(id: string): Promise<string | null> {
  const { runs } = await get<Runs>(`/api/conversations/${part(id)}/runs?limit=1`);
  return runs[0]?.id ?? null;
}

export async function titleFor(id: string): Promise<string> {
  return shownTitle(await get<Conversation>(`/api/conversations/${part(id)}`));
}

/** Formats of files in which a conversation can be saved. */
export const FORMATS = ['markdown', 'json', 'ipynb'] as const;
export type Format = (typeof FORMATS)[number];

export const exportAddress = (id: string, format: Format): string =>
  `/api/conversations/${part(id)}/export?format=${format}`;

export async function rename(id: string, title: string): Promise<void> {
  await call('PATCH', `/api/conversations/${part(id)}`, { title });
}

/** Deletes a conversation. One that is gone already is no error. */
export async function remove(id: string): Promise<void> {
  try {
    await call('DELETE', `/api/conversations/${part(id)}`);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
}
