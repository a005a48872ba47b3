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

/** Finds the file that a message cites. The citation has the name and the execution, but not the ID. */
export async function cited(name: string, uri: string): Promise<Artifact | null> {
  const list = await get<ArtifactPage>('/api/artifacts?limit=100');
  const found = list.artifacts.find((artifact) => artifact.name === name);
  if (!found) return null;
  const wanted = found.versions.find((version) => uri.includes(version.execution_id));
  let version = wanted ?? found.versions[0];
  if (!wanted) {
    const whole = await get<Listed>(`/api/artifacts/${part(found.id)}`);
    version = whole.versions.find((one) => uri.includes(one.execution_id)) ?? version;
  }
  return version ? { name, id: found.id, mime: version.mime, bytes: version.bytes, version: version.version } : null;
}
