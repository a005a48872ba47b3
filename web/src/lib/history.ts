// The list of conversations. This module alone knows which routes it comes from.
//
// `/api/conversations` lists what the server has. A server without that route cannot list conversations, so the browser
// remembers which ones it has started.

import { ApiError, call, get, part, post } from './api';

export type Summary = { id: string; title: string; changed: string; isRunning: boolean };
type Metadata = Record<string, string>;
type Conversation = { id: string; metadata?: Metadata };
type Listed = Conversation & {
  title?: string | null;
  preview?: string | null;
  changed_at: string;
  running?: string | null;
};

const KEY = 'coracle.conversations';
const MAX_REMEMBERED = 200;
const MAX_TITLE = 80;

let probing: Promise<boolean> | null = null;

/** Whether the server can list conversations. */
function canList(): Promise<boolean> {
  probing ??= get('/api/conversations?limit=1').then(
    () => true,
    (error) => {
      if (error instanceof ApiError && error.status === 404) return false;
      probing = null;
      throw error;
    },
  );
  return probing;
}

function remembered(): Summary[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(list) ? (list as Summary[]).filter((one) => typeof one?.id === 'string') : [];
  } catch {
    return [];
  }
}

function remember(list: Summary[]): void {
  localStorage.setItem(KEY, JSON.stringify(list.slice(0, MAX_REMEMBERED)));
}

/** The title of a conversation that begins with this message. */
export function titleOf(message: string): string {
  const line = message.replace(/\s+/g, ' ').trim();
  return line.length > MAX_TITLE ? `${line.slice(0, MAX_TITLE - 1).trimEnd()}…` : line;
}

const shownTitle = (one: Listed): string => one.title ?? one.metadata?.title ?? one.preview ?? '';

/** The conversations, the most recent first. */
export async function list(search: string): Promise<Summary[]> {
  const wanted = search.trim();
  if (await canList()) {
    const query = new URLSearchParams({ limit: '100', ...(wanted ? { query: wanted } : {}) });
    const { conversations } = await get<{ conversations: Listed[] }>(`/api/conversations?${query}`);
    return conversations.map((one) => ({
      id: one.id,
      title: shownTitle(one),
      changed: one.changed_at,
      isRunning: Boolean(one.running),
    }));
  }
  return remembered().filter((one) => one.title.toLowerCase().includes(wanted.toLowerCase()));
}

/** Starts a conversation. */
export async function create(title: string): Promise<string> {
  const { id } = await post<Conversation>('/v1/conversations', { metadata: { title } });
  touch(id, title);
  return id;
}

/** Remembers that a conversation was used. */
export function touch(id: string, title: string): void {
  const rest = remembered().filter((one) => one.id !== id);
  remember([{ id, title, changed: new Date().toISOString(), isRunning: false }, ...rest]);
}

/** The title of a conversation, and the run that is under way or the last one. */
export async function show(id: string): Promise<{ title: string; run: string | null }> {
  if (await canList()) {
    const found = await get<Listed>(`/api/conversations/${part(id)}`);
    return { title: shownTitle(found), run: found.running ?? found.metadata?.run ?? null };
  }
  const { metadata } = await get<Conversation>(`/v1/conversations/${part(id)}`);
  return { title: metadata?.title ?? '', run: metadata?.run ?? null };
}

/** Notes the last run of a conversation, so that other devices find it. */
export async function setRun(id: string, run: string): Promise<void> {
  const { metadata } = await get<Conversation>(`/v1/conversations/${part(id)}`);
  await post(`/v1/conversations/${part(id)}`, { metadata: { ...metadata, run } });
}

export async function rename(id: string, title: string): Promise<void> {
  if (await canList()) await call('PATCH', `/api/conversations/${part(id)}`, { title });
  const { metadata } = await get<Conversation>(`/v1/conversations/${part(id)}`);
  await post(`/v1/conversations/${part(id)}`, { metadata: { ...metadata, title } });
  remember(remembered().map((one) => (one.id === id ? { ...one, title } : one)));
}

/** Deletes a conversation. One that is gone already is no error. */
export async function remove(id: string): Promise<void> {
  try {
    await call('DELETE', `/v1/conversations/${part(id)}`);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
  remember(remembered().filter((one) => one.id !== id));
}
