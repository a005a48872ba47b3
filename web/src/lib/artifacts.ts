// Files that code left for its user.

import { get, part } from './api';
import type { ArtifactPage, Artifact as Listed } from './generated/api';

export type Artifact = { name: string; id: string; mime: string; bytes: number; version: number };

/** Media types that the server shows in an image element, none of which runs anything there. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml']);
const MAX_PREVIEW = 8_000_000;

export const isImage = (artifact: Artifact): boolean => IMAGES.has(artifact.mime) && artifact.bytes <= MAX_PREVIEW;

const address = (artifact: Artifact): string =>
  `/api/artifacts/${part(artifact.id)}/versions/${artifact.version}/content`;

export const downloadAddress = (artifact: Artifact): string => address(artifact);
export const inlineAddress = (artifact: Artifact): string => `${address(artifact)}?inline=1`;

/** The view of the file in this page. */
export const viewAddress = (artifact: Artifact): string => `#/files/artifacts/${part(artifact.name)}/${artifact.version}`;

/** Reads the artifact in an event; `null` if it was not kept. */
export function fromEvent(value: unknown): Artifact | null {
  const { name, id, mime, bytes, version } = (value ?? {}) as Partial<Artifact>;
  if (!name || !id || !version) return null;
  return { name, id, mime: mime ?? '', bytes: bytes ?? 0, version };
}

/** Number of artifacts of a page, and of pages that are searched for a name. */
const PAGE = 100;
const MAX_PAGES = 5;
/** A list of artifacts is used again for so long, and for a name that it does not have for a shorter time. In milliseconds. */
const KEPT = 10_000;
const KEPT_IF_MISSING = 500;

let known: { at: number; list: Promise<Listed[]> } | null = null;

/** Forgets the list of artifacts, because code has written some. */
export function changed(): void {
  known = null;
}

async function all(): Promise<Listed[]> {
  const list: Listed[] = [];
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const last = list.at(-1)?.id;
    const { artifacts } = await get<ArtifactPage>(`/api/artifacts?limit=${PAGE}${last ? `&before=${part(last)}` : ''}`);
    list.push(...artifacts);
    if (artifacts.length < PAGE) break;
  }
  return list;
}

function listed(maxAge: number): Promise<Listed[]> {
  if (known && Date.now() - known.at <= maxAge) return known.list;
  const loading = { at: Date.now(), list: all() };
  known = loading;
  loading.list.catch(() => {
    if (known === loading) known = null;
  });
  return loading.list;
}

/** The newest version of the artifact with this name that one of the executions has written, or else the newest one. */
export async function named(name: string, isOurs: (execution: string) => boolean): Promise<Artifact | null> {
  const search = async (maxAge: number): Promise<Listed | undefined> =>
    (await listed(maxAge)).find((artifact) => artifact.name === name);
  const found = (await search(KEPT)) ?? (await search(KEPT_IF_MISSING));
  if (!found) return null;
  let version = found.versions.find((one) => isOurs(one.execution_id));
  if (!version && found.count > found.versions.length) {
    const whole = await get<Listed>(`/api/artifacts/${part(found.id)}`);
    version = whole.versions.find((one) => isOurs(one.execution_id));
  }
  version ??= found.versions[0];
  return version ? { name, id: found.id, mime: version.mime, bytes: version.bytes, version: version.version } : null;
}

/** Finds the file that a message cites. The citation has the name and the execution, but not the ID. */
export const cited = (name: string, uri: string): Promise<Artifact | null> =>
  named(name, (execution) => uri.includes(execution));
