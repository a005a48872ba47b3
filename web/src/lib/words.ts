// Command lines.

/** The words of a command line, as a shell splits it; `null` if a quote is not closed. Nothing is expanded. */
export function words(line: string): string[] | null {
  const found: string[] = [];
  let word: string | null = null;
  let quote = '';
  for (let index = 0; index < line.length; index += 1) {
    const char = line[index] ?? '';
    const next = line[index + 1] ?? '';
    if (quote === "'" ? false : char === '\\' && (quote === '' ? next !== '' : '"\\$`'.includes(next) && next !== '')) {
      word = (word ?? '') + next;
      index += 1;
    } else if (quote) {
      if (char === quote) quote = '';
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== null) found.push(word);
      word = null;
    } else word = (word ?? '') + char;
  }
  if (quote) return null;
  return word === null ? found : [...found, word];
}
