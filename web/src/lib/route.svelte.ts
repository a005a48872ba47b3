// Which view is open, from the fragment of the address. The server has one page.

export type Route = { view: 'chat'; id: string | null } | { view: 'tools' } | { view: 'settings' };

function parse(hash: string): Route {
  const path = hash.replace(/^#\/?/, '');
  if (path === 'tools' || path === 'settings') return { view: path };
  const found = /^c\/([\w-]{1,100})$/.exec(path);
  return { view: 'chat', id: found?.[1] ?? null };
}

class Router {
  current = $state.raw<Route>(parse(location.hash));

  constructor() {
    window.addEventListener('hashchange', () => {
      this.current = parse(location.hash);
    });
  }

  go(path: string): void {
    location.hash = `#/${path}`;
  }

  /** Changes the address of the conversation that is open. */
  replace(path: string): void {
    history.replaceState(null, '', `#/${path}`);
    this.current = parse(location.hash);
  }
}

export const router = new Router();
