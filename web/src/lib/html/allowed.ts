// What a previewed page may contain. Everything else is dropped: scripts, frames, objects, forms, links to style sheets,
// refreshes, and all addresses except images in the file itself and places in the same page.

export const HTML = 'http://www.w3.org/1999/xhtml';
const SVG = 'http://www.w3.org/2000/svg';

const words = (text: string): string[] => text.trim().split(/\s+/);

const HTML_ELEMENTS = words(`
  html head body style a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup data
  dd del details dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hgroup hr i img ins kbd li main
  mark menu meter nav ol p pre progress q rp rt ruby s samp search section small span strike strong sub summary sup table
  tbody td tfoot th thead time tr tt u ul var wbr
`);

const SVG_ELEMENTS = words(`
  svg g defs path rect circle ellipse line polyline polygon text tspan title desc linearGradient radialGradient stop
  clipPath mask pattern marker
`);

/** Elements that are replaced by what is in them. */
const UNWRAPPED = words('form fieldset legend label picture noscript');

const ATTRIBUTES = words(`
  id class style lang dir title hidden href src alt width height align valign bgcolor color face size border cellpadding
  cellspacing colspan rowspan span scope headers abbr start reversed type value min max low high optimum open datetime
  media role aria-label aria-hidden aria-labelledby aria-describedby
  viewBox preserveAspectRatio x y x1 y1 x2 y2 cx cy r rx ry fx fy d points transform offset dx dy rotate textLength
  fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray
  stroke-dashoffset stroke-miterlimit opacity color visibility display overflow font-family font-size font-weight
  font-style text-anchor dominant-baseline alignment-baseline letter-spacing stop-color stop-opacity clip-path clip-rule
  mask gradientUnits gradientTransform spreadMethod patternUnits patternTransform patternContentUnits clipPathUnits
  maskUnits maskContentUnits markerWidth markerHeight markerUnits refX refY orient marker-start marker-mid marker-end
`);

export const elements: Record<string, ReadonlySet<string>> = {
  [HTML]: new Set(HTML_ELEMENTS),
  [SVG]: new Set(SVG_ELEMENTS),
};
export const attributes: ReadonlySet<string> = new Set(ATTRIBUTES);

/** The same for the parser of the browser. */
export const configuration = {
  elements: [
    ...HTML_ELEMENTS.map((name) => ({ name, namespace: HTML })),
    ...SVG_ELEMENTS.map((name) => ({ name, namespace: SVG })),
  ],
  replaceWithChildrenElements: UNWRAPPED.map((name) => ({ name, namespace: HTML })),
  attributes: [...attributes].map((name) => ({ name, namespace: null })),
  comments: false,
};

/** An image that is part of the file. None of these types runs or loads anything in an image element. */
export const isImage = (address: string): boolean => /^data:image\/(?:png|jpeg|gif|webp|svg\+xml)[;,]/i.test(address.trim());
