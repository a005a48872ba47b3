// A list that is loaded page by page.

import { messageOf } from './api';

/** Loads the entries after the last one that is known. */
type Load<T> = (last: T | undefined) => Promise<T[]>;

export class Pages<T> {
  /** The entries so far; `null` until the first page is there. */
  items = $state.raw<T[] | null>(null);
  hasMore = $state(false);
  isLoading = $state(false);
  problem = $state('');
  readonly #size: number;
  readonly #load: Load<T>;

  /** `size` is the number of entries of a page that is not the last one. */
  constructor(size: number, load: Load<T>) {
    this.#size = size;
    this.#load = load;
  }

  async more(): Promise<void> {
    if (this.isLoading) return;
    this.isLoading = true;
    this.problem = '';
    try {
      const page = await this.#load(this.items?.at(-1));
      this.items = [...(this.items ?? []), ...page];
      this.hasMore = page.length === this.#size;
    } catch (error) {
      this.problem = messageOf(error);
    } finally {
      this.isLoading = false;
    }
  }
}
