// What this browser remembers: theme, model, drafts and queued messages.

export type Theme = 'system' | 'light' | 'dark';

export const stored = (key: string): string => {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
};

/** Stores a text, and returns whether the browser has done so. */
export function store(key: string, value: string): boolean {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
    return true;
  } catch {
    // A full or disabled storage only costs the memory of this browser.
    return false;
  }
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

class Preferences {
  #theme = $state<Theme>('system');
  #model = $state(stored('coracle.model'));
  #plans = $state(stored('coracle.plans') === 'yes');

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

  /** Whether code of the agent makes plans instead of changing anything. */
  get plans(): boolean {
    return this.#plans;
  }

  set plans(plans: boolean) {
    this.#plans = plans;
    store('coracle.plans', plans ? 'yes' : '');
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
  void store(draftKey(conversation), message);

export const queueKey = (conversation: string): string => `coracle.queue.${conversation}`;

/** Forgets what belongs to a conversation that is deleted. */
export function forget(conversation: string): void {
  store(draftKey(conversation), '');
  store(queueKey(conversation), '');
  store(`coracle.files.${conversation}`, '');
}
