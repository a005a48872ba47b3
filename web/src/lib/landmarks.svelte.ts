// Names of landmarks. Those of a page must differ, or people who hear them cannot tell them apart.

import { untrack } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';

/** Landmarks on the page by the name that they want, in the order in which they appeared. */
const wanted = new SvelteMap<string, symbol[]>();

/** The name of a landmark, with a number if others on the page want the same. To be made while a component begins. */
export class LandmarkName {
  readonly #own = Symbol('landmark');
  readonly #name: () => string;

  constructor(name: () => string) {
    this.#name = name;
    $effect(() => {
      const now = name();
      untrack(() => wanted.set(now, [...(wanted.get(now) ?? []), this.#own]));
      return () => {
        const others = (wanted.get(now) ?? []).filter((one) => one !== this.#own);
        if (others.length > 0) wanted.set(now, others);
        else wanted.delete(now);
      };
    });
  }

  get text(): string {
    const name = this.#name();
    const place = wanted.get(name)?.indexOf(this.#own) ?? 0;
    return place > 0 ? `${name} (${place + 1})` : name;
  }
}
