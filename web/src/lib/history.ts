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

/** Number of conversations that are loaded at once. */
const PAGE = 100;

export type List = { conversations: Summary[]; hasMore: boolean };

/** Conversations, the most recent first: the first ones, or those after another one. */
export async function list(search: string, after?: Summary): Promise<List> {
  const wanted = search.trim();
  const query = new URLSearchParams({
    limit: String(PAGE),
    ...(wanted ? { query: wanted } : {}),
    ...(after ? { before: after.id } : {}),
  });
  const found = (await get<Conversations>(`/api/conversations?${query}`)).conversations;
  const conversations = found.map((one) => ({
    id: one.id,
    title: shownTitle(one),
    changed: one.changed_at,
    isRunning: Boolean(one.running),
  }));
  return { conversations, hasMore: found.length === PAGE };
}

/** A list after its first page was loaded again. What is older than that page stays as it was. */
export function refreshed(before: List, first: List): List {
  const oldest = first.conversations.at(-1);
  if (!oldest || !first.hasMore) return first;
  const known = new Set(first.conversations.map((one) => one.id));
  const older = before.conversations.filter((one) => !known.has(one.id) && one.changed < oldest.changed);
  return { conversations: [...first.conversations, ...older], hasMore: older.length > 0 ? before.hasMore : true };
}

/** A list with the page after it. A conversation that has changed meanwhile is at its beginning already. */
export function extended(before: List, next: List): List {
  const known = new Set(before.conversations.map((one) => one.id));
  const more = next.conversations.filter((one) => !known.has(one.id));
  return { conversations: [...before.conversations, ...more], hasMore: next.hasMore };
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

/** The runs that were started after one of them, the oldest first; the last one if that is not known. */
export async function runsAfter(id: string, known: string | null): Promise<string[]> {
  const { runs } = await get<Runs>(`/api/conversations/${part(id)}/runs?limit=${known ? 50 : 1}`);
  const place = runs.findIndex((run) => run.id === known);
  const later = place < 0 ? runs.slice(0, 1) : runs.slice(0, place);
  return later.map((run) => run.id).toReversed();
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
