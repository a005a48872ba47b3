// What the browser must have for previews of pages: its own parser that drops everything which is not allowed.

type Sanitizing = { Sanitizer?: new (configuration: object) => object };
type Parsing = { parseHTML?: (html: string, options: { sanitizer: object }) => Document };

export const isSupported = (): boolean => 'parseHTML' in Document && 'Sanitizer' in globalThis;

/** Parses a page without what the configuration does not list; `null` if the browser cannot. Nothing in it loads. */
export function parsed(html: string, configuration: object): Document | null {
  const { Sanitizer } = globalThis as Sanitizing;
  const { parseHTML } = Document as Parsing;
  return Sanitizer && parseHTML ? parseHTML(html, { sanitizer: new Sanitizer(configuration) }) : null;
}
