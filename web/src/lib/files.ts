// Files of the workspace.

import { ApiError, call, get, post, send } from './api';
import type { Entries, Entry, WorkspaceUsage } from './generated/api';

export type { Entry, WorkspaceUsage as Usage };
export type Listing = Pick<Entries, 'files' | 'truncated'>;

/** A file that can be previewed. */
export type Source = {
  name: string;
  bytes: number;
  /** Media type; empty if only the answer of the server says it. */
  mime: string;
  download: string;
  inline: string;
  /** Path for code; `null` if code cannot see the file. */
  path: string | null;
};

const query = (values: Record<string, string>): string => new URLSearchParams(values).toString();

export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const folderOf = (path: string): string => (path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '');
export const joined = (folder: string, name: string): string => (folder ? `${folder}/${name}` : name);

export const usage = (): Promise<WorkspaceUsage> => get<WorkspaceUsage>('/api/workspace');

/** Links that the server puts into each workspace, for code that imports from them. */
const OWN_LINKS = new Set(['servers', 'skills']);

/** The entries of a folder: folders first, then by name. */
export async function list(path: string): Promise<Listing> {
  const listing = await get<Entries>(`/api/workspace/files?${query({ path })}`);
  const found = listing.files.filter((entry) => entry.kind !== 'link' || !OWN_LINKS.has(entry.path));
  const rank = (entry: Entry): number => (entry.kind === 'folder' ? 0 : 1);
  const byName = new Intl.Collator(undefined, { numeric: true });
  const files = found.toSorted(
    (one, other) => rank(one) - rank(other) || byName.compare(nameOf(one.path), nameOf(other.path)),
  );
  return { files, truncated: listing.truncated };
}

export function source(entry: Entry): Source {
  const download = `/api/workspace/file?${query({ path: entry.path })}`;
  const inline = `${download}&inline=1`;
  return { name: nameOf(entry.path), bytes: entry.bytes, mime: '', download, inline, path: `/workspace/${entry.path}` };
}

/** Writes a file that has to be the version with this tag. Returns `false` if it is not any more. */
export async function replace(path: string, content: Blob, etag: string): Promise<boolean> {
  try {
    await send('PUT', `/api/workspace/file?${query({ path })}`, content, { 'if-match': etag });
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 412) return false;
    throw error;
  }
}

/** Writes a file. Returns `false` if one is there that may not be replaced. */
export async function write(path: string, content: Blob, overwrite: boolean): Promise<boolean> {
  try {
    await send('PUT', `/api/workspace/file?${query({ path, overwrite: String(overwrite) })}`, content);
    return true;
  } catch (error) {
    if (!overwrite && error instanceof ApiError && error.status === 409) return false;
    throw error;
  }
}

export const makeFolder = (path: string): Promise<Entry> => post<Entry>('/api/workspace/folder', { path });

export const move = (from: string, to: string): Promise<Entry> => post<Entry>('/api/workspace/move', { from, to });

export const remove = (entry: Entry): Promise<void> =>
  call('DELETE', `/api/workspace/file?${query({ path: entry.path, recursive: String(entry.kind === 'folder') })}`);
