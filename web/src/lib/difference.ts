// The difference between two texts, by lines.

export type Line = { kind: 'same' | 'removed' | 'added'; text: string };
/** A run of lines that are the same and were left out. */
export type Gap = { kind: 'gap'; lines: number };

/** Maximum number of pairs of lines that are compared. Larger texts are replaced as a whole. */
const MAX_PAIRS = 1_000_000;
/** Number of lines that are the same and kept beside a change. */
const CONTEXT = 3;

const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));
const all = (kind: Line['kind'], lines: string[]): Line[] => lines.map((text) => ({ kind, text }));

/** The lines of both texts. */
export function difference(before: string, after: string): Line[] {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end += 1;
  return [
    ...all('same', old.slice(0, start)),
    ...changed(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end)),
    ...all('same', old.slice(old.length - end)),
  ];
}

/** By the longest common subsequence. */
function changed(old: string[], fresh: string[]): Line[] {
  if (old.length * fresh.length > MAX_PAIRS) return [...all('removed', old), ...all('added', fresh)];
  const width = fresh.length + 1;
  // The length of the longest common subsequence of what follows each pair of positions.
  const lengths = new Uint32Array((old.length + 1) * width);
  const lengthAt = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = fresh.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] =
        old[row] === fresh[column]
          ? lengthAt(row + 1, column + 1) + 1
          : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1));
    }
  }
  const lines: Line[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < fresh.length) {
    const [removed, added] = [old[row], fresh[column]];
    if (removed !== undefined && removed === added) {
      lines.push({ kind: 'same', text: removed });
      row += 1;
      column += 1;
    } else if (added === undefined || (removed !== undefined && lengthAt(row + 1, column) >= lengthAt(row, column + 1))) {
      lines.push({ kind: 'removed', text: removed ?? '' });
      row += 1;
    } else {
      lines.push({ kind: 'added', text: added });
      column += 1;
    }
  }
  return lines;
}

/** Leaves out long runs of lines that are the same. */
export function folded(lines: Line[]): (Line | Gap)[] {
  const isNear = (index: number): boolean =>
    lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some((line) => line.kind !== 'same');
  const shown: (Line | Gap)[] = [];
  lines.forEach((line, index) => {
    if (isNear(index)) {
      shown.push(line);
      return;
    }
    const last = shown.at(-1);
    if (last?.kind === 'gap') last.lines += 1;
    else shown.push({ kind: 'gap', lines: 1 });
  });
  return shown;
}
