// Conversations that are not open yet, but are opened next.

import type { Thread } from './thread.svelte';

/** Each one listens to its run, and browsers open few connections to a server. */
const MAX_KEPT = 2;

export class KeptThreads {
  #threads: Thread[] = [];

  keep(thread: Thread): void {
    this.#threads.push(thread);
    while (this.#threads.length > MAX_KEPT) this.#threads.shift()?.discard();
  }

  /** The conversation with this ID, if it is at work or says why it is not. */
  comeBack(id: string): Thread | null {
    const found = this.#threads.find((thread) => thread.id === id);
    if (!found) return null;
    this.#threads = this.#threads.filter((thread) => thread !== found);
    if (found.isBusy || found.problem) return found;
    found.discard();
    return null;
  }
}
