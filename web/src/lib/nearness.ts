// Which elements are near the part of a scrolling view that can be seen.

/** How far from the view an element is still near. */
const MARGIN = '1500px 0px';

type Listener = (isNear: boolean) => void;
/** A change that an element has not been told yet. */
type Change = { isNear: boolean; distance: number };

/** Tells elements whether they are near, at most one of them per frame: each may render a lot. */
export class Nearness {
  #observer: IntersectionObserver | null = null;
  #listeners = new Map<Element, Listener>();
  #waiting = new Map<Element, Change>();
  #frame = 0;

  /** Calls the listener whenever the element comes near or is not near any more. Returns a function that ends that. */
  watch(root: Element, element: Element, listener: Listener): () => void {
    this.#observer ??= new IntersectionObserver((changes) => this.#heard(changes), { root, rootMargin: MARGIN });
    this.#listeners.set(element, listener);
    this.#observer.observe(element);
    return () => {
      this.#observer?.unobserve(element);
      this.#listeners.delete(element);
      this.#waiting.delete(element);
    };
  }

  /** Calls the listener as soon as there is time, for those with the smallest rank first. Returns a function that ends that. */
  soon(element: Element, rank: number, listener: () => void): () => void {
    this.#listeners.set(element, listener);
    // Before all that are only near.
    this.#waiting.set(element, { isNear: true, distance: Math.min(rank, 0) });
    this.#frame ||= requestAnimationFrame(() => this.#next());
    return () => {
      this.#listeners.delete(element);
      this.#waiting.delete(element);
    };
  }

  #heard(changes: IntersectionObserverEntry[]): void {
    // Asking the browser for places is slow, so that is done once for each change.
    for (const change of changes) this.#waiting.set(change.target, { isNear: change.isIntersecting, distance: distance(change) });
    if (!this.#frame) this.#next();
  }

  /** Tells the element that is the nearest, as those that are not near any more can wait. */
  #next(): void {
    this.#frame = 0;
    let nearest: Element | null = null;
    let change: Change | null = null;
    for (const [element, one] of this.#waiting) {
      if (change && one.distance >= change.distance) continue;
      nearest = element;
      change = one;
    }
    if (!nearest || !change) return;
    this.#waiting.delete(nearest);
    this.#listeners.get(nearest)?.(change.isNear);
    if (this.#waiting.size > 0) this.#frame = requestAnimationFrame(() => this.#next());
  }
}

/** How far the middle of an element is from the middle of the view, in pixels. */
function distance({ boundingClientRect: element, rootBounds: view }: IntersectionObserverEntry): number {
  if (!view) return 0;
  return Math.abs(element.top + element.height / 2 - (view.top + view.height / 2));
}
