// Branches: conversations that continue another one from one of its messages. Both have the ID of the other in their
// metadata.

import { get, part, post } from './api';
import type { UserEntry } from './entries.svelte';
import * as history from './history';
import { text } from './text';

type Metadata = Record<string, string>;
type Item = { id: string; type: string; role?: string };
type Items = { data: Item[]; has_more: boolean; last_id: string | null };

const ORIGIN = 'coracle_branch_of';
const BRANCHES = 'coracle_branches';
/** Maximum length of a value in the metadata. */
const MAX_VALUE = 512;
/** Maximum length of a title before its number, in characters. */
const MAX_TITLE = 50;

export type Relatives = { origin: string | null; branches: string[] };

/** The IDs of related conversations. */
export function relatives(metadata: Metadata): Relatives {
  return { origin: metadata[ORIGIN] || null, branches: (metadata[BRANCHES] ?? '').split(' ').filter(Boolean) };
}

/** The IDs of a message of the user and of the item before it, if there is one. `fromEnd` counts later messages. */
async function placeOf(conversation: string, message: UserEntry, fromEnd: number): Promise<{ own: string | null; before: string | null }> {
  let left = fromEnd;
  let own: string | null = null;
  let after: string | null = null;
  for (;;) {
    const query = new URLSearchParams({ limit: '100', order: 'desc', ...(after ? { after } : {}) });
    const page: Items = await get<Items>(`/v1/conversations/${part(conversation)}/items?${query}`);
    for (const item of page.data) {
      // The results of a call are copied with it.
      if (own && !item.type.endsWith('_output')) return { own, before: item.id };
      if (own || item.type !== 'message' || item.role !== 'user') continue;
      // A message that was sent from here does not have the ID of its item.
      if (item.id === message.id || left === 0) own = item.id;
      left -= 1;
    }
    if (!page.has_more || !page.last_id) return { own, before: null };
    after = page.last_id;
  }
}

/** A title that differs from that of the original. */
function numbered(title: string, number: number): string {
  const plain = [...title.replace(/ \(\d+\)$/, '')].slice(0, MAX_TITLE).join('').trimEnd();
  return `${plain} (${number})`.trim();
}

const metadataOf = async (id: string): Promise<Metadata> =>
  (await get<{ metadata?: Metadata }>(`/api/conversations/${part(id)}`)).metadata ?? {};

const setMetadata = (id: string, metadata: Metadata): Promise<unknown> =>
  post(`/v1/conversations/${part(id)}`, { metadata });

/** Notes in both conversations that one is a branch of the other. */
async function link(origin: string, metadata: Metadata, branch: string): Promise<void> {
  const { [BRANCHES]: before = '', ...others } = metadata;
  await setMetadata(branch, { ...others, [ORIGIN]: origin });
  const all = [...before.split(' ').filter(Boolean), branch];
  while (all.join(' ').length > MAX_VALUE) all.shift();
  await setMetadata(origin, { ...metadata, [BRANCHES]: all.join(' ') });
}

/** Removes a conversation that is deleted from those that name it. */
export async function unlink(id: string): Promise<void> {
  const { origin, branches } = relatives(await metadataOf(id));
  for (const relative of [origin, ...branches].filter((one) => one !== null)) {
    const { [ORIGIN]: above = '', [BRANCHES]: below = '', ...others } = await metadataOf(relative);
    const left = below.split(' ').filter((one) => one && one !== id).join(' ');
    const kept = { ...(above && above !== id ? { [ORIGIN]: above } : {}), ...(left ? { [BRANCHES]: left } : {}) };
    await setMetadata(relative, { ...others, ...kept });
  }
}

/** Copies a conversation, up to an item if there is one, and returns the ID of the copy. */
export async function fork(origin: string, title: string, item?: string): Promise<string> {
  const metadata = await metadataOf(origin);
  const number = relatives(metadata).branches.length + 2;
  const body = { title: numbered(title, number), ...(item ? { item } : {}) };
  const { id } = await post<{ id: string }>(`/api/conversations/${part(origin)}/fork`, body);
  // Without the links, the copy is still good.
  await link(origin, metadata, id).catch(() => {});
  return id;
}

/** Starts a conversation with everything before a message, for another message in its place. */
export async function branchBefore(
  origin: { id: string; title: string },
  message: UserEntry,
  fromEnd: number,
  replacement: string,
): Promise<string> {
  const { before } = await placeOf(origin.id, message, fromEnd);
  if (before) return fork(origin.id, origin.title, before);
  const id = await history.create(history.titleOf(replacement));
  await link(origin.id, await metadataOf(origin.id), id).catch(() => {});
  return id;
}

/** Starts a conversation that ends with a message, for another answer to it. */
export async function branchAfter(
  origin: { id: string; title: string },
  message: UserEntry,
  fromEnd: number,
): Promise<string> {
  const { own } = await placeOf(origin.id, message, fromEnd);
  if (!own) throw new Error(text.branch.gone);
  return fork(origin.id, origin.title, own);
}
