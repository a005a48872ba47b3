// Tables in CSV and JSON, as far as a preview needs them.

/** Limits of what is shown. */
export const MAX_ROWS = 200;
export const MAX_COLUMNS = 50;
const MAX_CELL = 500;

export type Table = {
  columns: string[];
  rows: string[][];
  /** Number of rows and columns in the file. */
  allRows: number;
  allColumns: number;
};

const shortened = (cell: string): string => (cell.length > MAX_CELL ? `${cell.slice(0, MAX_CELL)}…` : cell);

function bounded(columns: string[], rows: string[][], allRows: number): Table {
  const shown = columns.slice(0, MAX_COLUMNS);
  return {
    columns: shown.map(shortened),
    rows: rows.map((row) => shown.map((_, column) => shortened(row[column] ?? ''))),
    allRows,
    allColumns: columns.length,
  };
}

/** The separator that the first line has most of. */
function separator(text: string): string {
  const line = text.slice(0, 10_000).split('\n', 1)[0] ?? '';
  const times = (mark: string): number => line.split(mark).length;
  return [',', ';', '\t', '|'].reduce((best, mark) => (times(mark) > times(best) ? mark : best));
}

/** Reads CSV with quotes as in RFC 4180. The first row has the names of the columns. */
export function fromCsv(text: string): Table | null {
  const mark = separator(text);
  const rows: string[][] = [];
  let all = 0;
  let row: string[] = [];
  let cell = '';
  let isQuoted = false;
  const endRow = (): void => {
    row.push(cell);
    cell = '';
    // An empty line is no row.
    if (row.length > 1 || row[0]) {
      all += 1;
      if (rows.length <= MAX_ROWS) rows.push(row);
    }
    row = [];
  };
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (char === '"' && cell === '') isQuoted = true;
    else if (char === mark) {
      row.push(cell);
      cell = '';
    } else if (char === '\n') endRow();
    else if (char !== '\r' || text[at + 1] !== '\n') cell += char;
  }
  if (cell || row.length > 0) endRow();
  const [columns, ...others] = rows;
  return columns ? bounded(columns, others, all - 1) : null;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const cellOf = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);

/** A list of objects, or of lists, as a table; `null` if the value is something else. */
export function fromValue(value: unknown): Table | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const shown: unknown[] = value.slice(0, MAX_ROWS);
  if (shown.every(isObject)) {
    const columns = [...new Set(shown.flatMap((row) => Object.keys(row)))];
    return bounded(columns, shown.map((row) => columns.map((column) => cellOf(row[column]))), value.length);
  }
  if (shown.every(Array.isArray)) {
    const width = Math.max(...shown.map((row) => row.length));
    const columns = Array.from({ length: width }, (_, column) => String(column + 1));
    return bounded(columns, shown.map((row) => row.map(cellOf)), value.length);
  }
  return null;
}

/** Reads one JSON value in each line; `null` if a line is something else. */
export function fromLines(text: string): Table | null {
  try {
    const lines = text.split('\n').filter((line) => line.trim());
    const table = fromValue(lines.slice(0, MAX_ROWS).map((line): unknown => JSON.parse(line)));
    return table && { ...table, allRows: lines.length };
  } catch {
    return null;
  }
}
