// What the command palette offers.

import { messageOf } from './api';
import { fork } from './branches';
import { FORMATS, type Summary, exportAddress } from './history';
import { type Theme, preferences } from './preferences.svelte';
import { VIEWS, router } from './route.svelte';
import { session } from './session.svelte';
import { text } from './text';
import type { Thread } from './thread.svelte';

export type Command = { id: string; label: string; note?: string; run: () => void };
export type Group = { id: string; title: string; commands: Command[] };

/** What only the page itself can do. */
export type Deeds = { showKeys: () => void; search: () => void };

const THEMES: Theme[] = ['system', 'light', 'dark'];

/** Saves what is at an address as a file. */
function save(address: string): void {
  const link = document.createElement('a');
  link.href = address;
  link.download = '';
  link.click();
}

function actions(thread: Thread, deeds: Deeds): Command[] {
  const { id, title } = thread;
  const forkOpen = (conversation: string): void => {
    fork(conversation, title).then(
      (copy) => router.go(`c/${copy}`),
      (error) => (thread.problem = messageOf(error)),
    );
  };
  const isShown = router.current.view === 'chat';
  return [
    { id: 'new', label: text.nav.new, run: () => router.go('') },
    ...(isShown && thread.run ? [{ id: 'stop', label: text.palette.stop, run: () => void thread.stop() }] : []),
    ...(isShown && id
      ? [
          { id: 'fork', label: text.palette.fork, run: () => forkOpen(id) },
          ...FORMATS.map((format) => ({
            id: `export-${format}`,
            label: text.palette.export(text.nav.formats[format]),
            run: () => save(exportAddress(id, format)),
          })),
        ]
      : []),
    { id: 'search', label: text.nav.search, run: deeds.search },
    { id: 'keys', label: text.nav.keys, run: deeds.showKeys },
    ...THEMES.filter((theme) => theme !== preferences.theme).map((theme) => ({
      id: `theme-${theme}`,
      label: text.palette.themes[theme],
      run: () => void (preferences.theme = theme),
    })),
  ];
}

const views = (): Command[] =>
  VIEWS.filter((view) => view !== 'admin' || session.me?.role === 'admin').map((view) => ({
    id: `view-${view}`,
    label: text.nav[view],
    run: () => router.go(view),
  }));

const models = (): Command[] =>
  session.models.map((model) => ({
    id: `model-${model}`,
    label: text.palette.model(model),
    ...(model === session.model ? { note: text.palette.current } : {}),
    run: () => void (preferences.model = model),
  }));

const conversations = (found: Summary[]): Command[] =>
  found.map((one) => ({ id: one.id, label: one.title || text.untitled, run: () => router.go(`c/${one.id}`) }));

/** Maximum number of conversations and of models. */
const MAX_LISTED = 8;

/** The commands that have all the words, by group, and the conversations that the server has found by their texts. */
export function matching(query: string, thread: Thread, recent: Summary[], found: Summary[], deeds: Deeds): Group[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const isMatch = ({ label }: Command): boolean => words.every((word) => label.toLowerCase().includes(word));
  const { palette } = text;
  const byTitle = conversations(recent).filter(isMatch);
  const known = new Set(byTitle.map((command) => command.id));
  const byText = conversations(found).filter((command) => !known.has(command.id));
  const groups = [
    { id: 'actions', title: palette.actions, commands: actions(thread, deeds).filter(isMatch) },
    { id: 'views', title: palette.views, commands: views().filter(isMatch) },
    { id: 'conversations', title: palette.conversations, commands: [...byTitle, ...byText].slice(0, MAX_LISTED) },
    { id: 'models', title: palette.models, commands: models().filter(isMatch).slice(0, MAX_LISTED) },
  ];
  return groups.filter((group) => group.commands.length > 0);
}
