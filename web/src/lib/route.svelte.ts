// Which view is open, from the fragment of the address. The server has one page.

export const VIEWS = ['files', 'activity', 'tools', 'settings', 'admin'] as const;
export type View = (typeof VIEWS)[number];
/** `parts` are what follows the view in the address, decoded. */
export type Route = { view: 'chat'; id: string | null } | { view: View; parts: string[] };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function parse(hash: string): Route {
  const path = hash.replace(/^#\/?/, '');
  const [name, ...parts] = path.split('/');
  const view = VIEWS.find((one) => one === name);
  if (view) return { view, parts: parts.filter(Boolean).map(decoded) };
  const found = /^c\/([\w-]{1,100})$/.exec(path);
  return { view: 'chat', id: found?.[1] ?? null };
}

class Router {
  current = $state.raw<Route>(parse(location.hash));
  /** Called instead of leaving a view with unsaved changes. Its argument leaves the view after all. */
  guard: ((leave: () => void) => void) | null = null;
  #hash = location.hash;
  #last: Partial<Record<View, string[]>> = {};

  constructor() {
    window.addEventListener('hashchange', () => {
      const wanted = location.hash;
      if (this.guard && wanted !== this.#hash) {
        history.replaceState(null, '', this.#hash || '#/');
        this.guard(() => {
          this.guard = null;
          location.hash = wanted;
        });
        return;
      }
      this.#hash = wanted;
      this.current = parse(wanted);
    });
  }

  /** What follows a view in the address. A view that is being left keeps what it had. */
  partsOf(view: View): string[] {
    if (this.current.view === view) this.#last[view] = this.current.parts;
    return this.#last[view] ?? [];
  }

  go(path: string): void {
    location.hash = `#/${path}`;
  }

  /** Changes the address of the conversation that is open. */
  replace(path: string): void {
    history.replaceState(null, '', `#/${path}`);
    this.#hash = location.hash;
    this.current = parse(location.hash);
  }
}

export const router = new Router();
