// Copies a page into the document of a frame, element by element. Only what `allowed.ts` lists is created there.

import { HTML, attributes, configuration, elements, isImage } from './allowed';
import { cleanDeclarations, isHarmless, sheet } from './styles';
import { parsed } from './support';

/** Links that lead elsewhere do not work, and say where they lead. */
const OWN_STYLES = 'a:not([href]) { text-decoration: underline dotted; cursor: help; }';
/** Maximum number of nodes that are copied. */
const MAX_NODES = 50_000;

/** An attribute that is copied as it is. */
function isAllowed(element: Element, name: string, value: string): boolean {
  if (!attributes.has(name) || name === 'style') return false;
  if (name === 'href') return element.localName === 'a' && value.startsWith('#');
  if (name === 'src') return element.localName === 'img' && isImage(value);
  // Attributes of drawings may be styles, such as `fill`.
  return element.namespaceURI === HTML || isHarmless(value);
}

function copyAttributes(from: Element, to: Element): void {
  for (const { name, value } of from.attributes) {
    if (isAllowed(from, name, value)) to.setAttribute(name, value);
  }
  const style = from.getAttribute('style');
  if (style) {
    const declarations = (to as HTMLElement | SVGElement).style;
    declarations.cssText = style;
    cleanDeclarations(declarations);
  }
  const address = from.localName === 'a' ? from.getAttribute('href') : null;
  if (address && !address.startsWith('#') && !to.hasAttribute('title')) to.setAttribute('title', address);
}

class Copy {
  readonly sheets: CSSStyleSheet[] = [];
  #left = MAX_NODES;

  constructor(
    readonly document: Document,
    readonly window: Window & typeof globalThis,
  ) {}

  get isWhole(): boolean {
    return this.#left > 0;
  }

  children(from: Element, to: Element): void {
    for (const node of from.childNodes) {
      if (this.#left <= 0) return;
      this.#left -= 1;
      if (node.nodeType === Node.TEXT_NODE) to.append(node.textContent ?? '');
      else if (node.nodeType === Node.ELEMENT_NODE) this.element(node as Element, to);
    }
  }

  element(from: Element, to: Element): void {
    const namespace = from.namespaceURI ?? '';
    if (!elements[namespace]?.has(from.localName)) return;
    if (from.localName === 'style') {
      this.sheets.push(sheet(this.window, from.textContent ?? '', from.getAttribute('media') ?? ''));
      return;
    }
    const made = this.document.createElementNS(namespace, from.localName);
    copyAttributes(from, made);
    this.children(from, made);
    to.append(made);
  }
}

/** Scrolls to the place that a link names. The browser would load the page of the application instead. */
function follow(document: Document, event: Event): void {
  const link = (event.target as Element | null)?.closest?.('a[href]');
  if (!link) return;
  event.preventDefault();
  const id = (link.getAttribute('href') ?? '').slice(1);
  if (id) document.getElementById(id)?.scrollIntoView();
  else document.documentElement.scrollTop = 0;
}

/** Shows a page in a frame that runs no scripts. Returns whether all of it is shown. */
export function show(html: string, frame: HTMLIFrameElement): boolean {
  const window = frame.contentWindow as (Window & typeof globalThis) | null;
  const document = frame.contentDocument;
  const page = parsed(html, configuration);
  if (!window || !document || !page) return false;
  const { documentElement: root, head, body } = document;
  const copy = new Copy(document, window);
  head.replaceChildren();
  body.replaceChildren();
  // The parser may have dropped the document element or its parts.
  for (const [from, to] of [[page.documentElement, root], [page.body, body]] as const) {
    for (const { name } of [...to.attributes]) to.removeAttribute(name);
    if (from) copyAttributes(from, to);
  }
  if (page.head) copy.children(page.head, head);
  if (page.body) copy.children(page.body, body);
  document.adoptedStyleSheets = [sheet(window, OWN_STYLES, ''), ...copy.sheets];
  document.onclick = (event) => follow(document, event);
  return copy.isWhole;
}
