// What this browser remembers: theme, model and drafts.

export type Theme = 'system' | 'light' | 'dark';

const stored = (key: string): string => {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
};

function store(key: string, value: string): void {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // A full or disabled storage only costs the memory of this browser.
  }
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

class Preferences {
  #theme = $state<Theme>('system');
  #model = $state(stored('coracle.model'));

  constructor() {
    const theme = stored('coracle.theme');
    this.#theme = theme === 'light' || theme === 'dark' ? theme : 'system';
    apply(this.#theme);
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    store('coracle.theme', theme === 'system' ? '' : theme);
    apply(theme);
  }

  get model(): string {
    return this.#model;
  }

  set model(model: string) {
    this.#model = model;
    store('coracle.model', model);
  }
}

export const preferences = new Preferences();

const draftKey = (conversation: string | null): string => `coracle.draft.${conversation ?? 'new'}`;
export const draft = (conversation: string | null): string => stored(draftKey(conversation));
export const keepDraft = (conversation: string | null, message: string): void =>
  store(draftKey(conversation), message);
