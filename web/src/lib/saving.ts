// Saving by keyboard.

/** Calls `save` for the usual key, which the browser would take to save the page. */
export const onSaveKey =
  (save: () => void) =>
  (event: KeyboardEvent): void => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 's') return;
    event.preventDefault();
    save();
  };
