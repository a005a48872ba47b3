// Entries in groups of neighbours. Groups that are far from what is in view are not rendered, so that the page stays fast
// and small, however long the conversation is.

import type { Entry } from './entries.svelte';

/** Number of entries of a full group: few enough that a group is rendered within a frame. */
export const GROUP_SIZE = 4;
/** Number of groups at the end that stay rendered wherever the view is. */
export const KEPT_GROUPS = 6;
/** Number of characters at the end of a conversation that are rendered at once. What is before them follows later. */
const MAX_AT_ONCE = 6_000;

/** The number of characters that an entry shows. */
function lengthOf(entry: Entry): number {
  switch (entry.kind) {
    case 'text':
      return entry.markdown.length;
    case 'code':
      return entry.code.length;
    case 'user':
      return entry.message.text.length;
    default:
      return 0;
  }
}

/** Whether a group is the last one, or so little follows it that it is rendered at once. */
export function isUrgent(groups: readonly Group<Entry>[], index: number): boolean {
  if (index < groups.length - KEPT_GROUPS) return false;
  if (index === groups.length - 1) return true;
  const shown = groups.slice(index).flatMap((group) => group.entries);
  return shown.reduce((sum, entry) => sum + lengthOf(entry), 0) <= MAX_AT_ONCE;
}

export type Group<T> = { key: number; entries: T[] };

/** Assigns entries to groups. An entry stays in its group when others are added before or after it. */
export class Grouping<T extends object> {
  #keys = new WeakMap<T, number>();

  of(entries: readonly T[]): Group<T>[] {
    const known = entries.findIndex((entry) => this.#keys.has(entry));
    const begin = known < 0 ? 0 : known;
    // Older entries are counted backwards from those that are known.
    const first = this.#keys.get(entries[begin] as T) ?? 0;
    for (let index = 0; index < begin; index += 1) {
      this.#keys.set(entries[index] as T, first - Math.ceil((begin - index) / GROUP_SIZE));
    }
    const groups: Group<T>[] = [];
    for (const entry of entries) {
      const last = groups.at(-1);
      const isFull = last !== undefined && last.entries.length >= GROUP_SIZE;
      const key = this.#keys.get(entry) ?? (last ? last.key + Number(isFull) : 0);
      this.#keys.set(entry, key);
      if (last?.key === key) last.entries.push(entry);
      else groups.push({ key, entries: [entry] });
    }
    return groups;
  }
}
