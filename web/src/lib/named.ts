// Files that a model names in its text, by a path of the sandbox or by their name alone.

import { getContext, setContext } from 'svelte';
import { type Artifact, inlineAddress, isImage, named as artifactNamed, viewAddress } from './artifacts';
import { list, source } from './files';
import type { Entry } from './generated/api';

/** Where a file is: `anywhere` is among the artifacts or else in the workspace. */
export type Named = { place: 'artifacts' | 'workspace' | 'anywhere'; path: string };
/** A file with its view in this page and, if it is a picture, the address to show it from. */
export type Found = { view: string; picture: string | null };

const CONTEXT = Symbol('executions');
/** IDs of the executions of a conversation. */
type Executions = () => ReadonlySet<string>;

/** Says that texts below belong to a conversation, in which a name alone is that of a file. */
export const setExecutions = (executions: Executions): Executions => setContext(CONTEXT, executions);
export const getExecutions = (): Executions | undefined => getContext<Executions | undefined>(CONTEXT);

/** Longest path that is taken for that of a file. */
const MAX_PATH = 512;
const FOLDERS: Record<string, Named['place']> = { artifacts: 'artifacts', workspace: 'workspace' };
/** Names that are rather those of other sites. */
const SITE = /^(?:www\.|[^/]*\.(?:com|org|net|io|dev|app)$)|^[^/]+\.[a-z]{2,}\//i;

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    // It may be a name with a percent sign.
    return path;
  }
}

/** A path without parts that lead elsewhere; `null` if it is not one. */
function clean(path: string): string | null {
  const names = path.replace(/^(?:\.\/)+/, '').split('/');
  const isBad = names.some((name) => name === '' || name === '.' || name === '..' || /\p{Cc}/u.test(name));
  return isBad || path.length > MAX_PATH ? null : names.join('/');
}

/** The file that an address names; `null` if it names none. Names alone are only those of files in a conversation. */
export function namedFile(address: string, isInConversation: boolean): Named | null {
  const own = /^coracle:\/\/artifacts\/[\w-]+\/(?!versions\/\d+$)([^?#]+)$/.exec(address);
  const absolute = /^(?:sandbox:|file:\/\/)?\/([^?#]+)$/.exec(address);
  const relative = /^(sandbox:)?([^/?#:][^?#:]*)$/.exec(address);
  let named: Named | null = null;
  if (own?.[1]) named = { place: 'artifacts', path: decoded(own[1]) };
  else if (absolute?.[1]) {
    const path = decoded(absolute[1]);
    const [first = '', ...rest] = path.split('/');
    const place = FOLDERS[first];
    if (place) named = { place, path: rest.join('/') };
    else if (path.startsWith('mnt/data/')) named = { place: 'anywhere', path: path.slice('mnt/data/'.length) };
    else if (address.startsWith('sandbox:')) named = { place: 'anywhere', path };
  } else if (relative?.[2] && (relative[1] || isInConversation)) {
    const path = decoded(relative[2]);
    const [first = '', ...rest] = path.replace(/^\.\//, '').split('/');
    const place = rest.length > 0 ? FOLDERS[first] : undefined;
    if (place) named = { place, path: rest.join('/') };
    // Files have endings. Other names are more likely anchors, or words that were not meant as a link.
    else if (relative[1] || (/\.[a-z0-9]{1,8}$/i.test(path) && !SITE.test(path))) named = { place: 'anywhere', path };
  }
  const path = named ? clean(named.path) : null;
  return named && path ? { place: named.place, path } : null;
}

/** The view that shows a file, or looks for it first. */
export function viewOf({ place, path }: Named): string {
  const kind = place === 'anywhere' ? 'find' : place;
  return `#/files/${kind}/${encodeURIComponent(path)}`;
}

const PICTURES = /\.(?:png|jpe?g|gif|webp|svg)$/i;

/** A file of the workspace. Each folder above it is looked into, so that nothing is asked for that does not exist. */
async function inWorkspace(path: string): Promise<Entry | null> {
  const names = path.split('/');
  for (let depth = 1; depth <= names.length; depth += 1) {
    const { files } = await list(names.slice(0, depth - 1).join('/'));
    const entry = files.find((one) => one.path === names.slice(0, depth).join('/'));
    if (!entry || (depth < names.length && entry.kind !== 'folder')) return null;
    if (depth === names.length) return entry.kind === 'file' ? entry : null;
  }
  return null;
}

const ofArtifact = (artifact: Artifact): Found => ({
  view: viewAddress(artifact),
  picture: isImage(artifact) ? inlineAddress(artifact) : null,
});

const ofEntry = (entry: Entry): Found => ({
  view: viewOf({ place: 'workspace', path: entry.path }),
  picture: PICTURES.test(entry.path) ? source(entry).inline : null,
});

/** Looks for a file; of several versions, one of these executions is preferred. */
export async function find({ place, path }: Named, executions: ReadonlySet<string> = new Set()): Promise<Found | null> {
  if (place !== 'workspace') {
    const artifact = await artifactNamed(path, (execution) => executions.has(execution));
    if (artifact) return ofArtifact(artifact);
  }
  if (place !== 'artifacts') {
    const entry = await inWorkspace(path);
    if (entry) return ofEntry(entry);
  }
  return null;
}
