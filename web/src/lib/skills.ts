// Skills: code that was saved for later programs, and instructions of the operator.

import { call, get, part, post } from './api';
import type { Draft } from './generated/api';
import type { Outcome } from './outcome';

/** A saved skill in a list. */
export type Listed = { name: string; description: string; language: string; tags: string[]; version: number; tested: boolean; saved_at: string };
export type Instructions = { name: string; description: string; location: string };
/** A skill that a search has found. */
type Found = { name: string; description: string; kind: 'code' | 'instructions'; tags?: string[]; use: string };

/** What is listed of a skill of either kind. */
export type Entry = { name: string; description: string; tags: string[]; facts: Listed | null; location: string };
export type Entries = { code: Entry[]; instructions: Entry[] };

export type Metadata = {
  name: string;
  language: string;
  description: string;
  author: string;
  tags: string[];
  tools: string[];
  example?: string | null;
  version: number;
  saved_at: string;
};
export type Tested = { tested: boolean; execution: Outcome | null };
export type Skill = { name: string; code: string; metadata: Metadata; versions: number[] };

const address = (name: string): string => `/api/skills/${part(name)}`;

/** All skills, or those that match. */
export async function list(search: string): Promise<Entries> {
  const all = await get<{ skills: Listed[]; instructions: Instructions[] }>('/api/skills');
  const code = all.skills.map((one): Entry => ({ ...one, facts: one, location: '' }));
  const instructions = all.instructions.map((one): Entry => ({ ...one, tags: [], facts: null }));
  if (!search) return { code, instructions };
  const { skills } = await get<{ skills: Found[] }>(`/api/skills?${new URLSearchParams({ query: search })}`);
  // The best match is the first.
  const matching = (kind: Found['kind'], entries: Entry[]): Entry[] =>
    skills.filter((one) => one.kind === kind).flatMap((one) => entries.find((entry) => entry.name === one.name) ?? []);
  return { code: matching('code', code), instructions: matching('instructions', instructions) };
}

/** A version of a skill; the newest one if none is named. */
export const load = (name: string, version?: number): Promise<Skill> =>
  get<Skill>(`${address(name)}${version ? `?version=${version}` : ''}`);

/** Saves a new version. The server runs the example first, and saves nothing if it fails. */
export const save = (name: string, draft: Draft): Promise<unknown> => call('PUT', address(name), draft);

export const remove = (name: string): Promise<unknown> => call('DELETE', address(name));

/** Runs the saved example. */
export const test = (name: string): Promise<Tested> => post<Tested>(`${address(name)}/test`);

/** The view of a skill in this page. Tools have two parts, so that no server can be in the way. */
export const viewOf = (name: string, version?: number): string =>
  `tools/skills/code/${part(name)}${version ? `/${version}` : ''}`;

/** How code imports a skill. */
export const importOf = ({ name, language }: Metadata): string =>
  language === 'typescript' ? `import * as ${name} from "skills/${name}";` : `from skills import ${name}`;
