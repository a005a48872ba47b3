// PDF files, drawn by pdf.js. It reads a file in a worker without network, eval and scripts of the file; links and forms
// are part of the picture, and do nothing.

import type { PDFDocumentProxy, PDFPageProxy, RenderTask } from 'pdfjs-dist';
import { PDFWorker, TextLayer, getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs';
import workerAddress from 'pdfjs-dist/legacy/build/pdf.worker.mjs?worker&url';

/** Maximum number of pixels of a page, and of an image in it. */
const MAX_PIXELS = 16_000_000;
const MAX_IMAGE_PIXELS = 50_000_000;

type Policy = { createScriptURL: (address: string) => string };
type Policies = { createPolicy: (name: string, rules: Policy) => Policy };

/** The address of the worker in the form that the policy of the page demands. A policy can be created once. */
const trusted = ((): string => {
  const { trustedTypes } = globalThis as { trustedTypes?: Policies };
  const rules = { createScriptURL: () => workerAddress };
  return (trustedTypes?.createPolicy('coracle-worker', rules) ?? rules).createScriptURL(workerAddress);
})();

/** Time that pdf.js has to release its fonts when a file is closed, in milliseconds. */
const CLOSING = 2_000;

/** Why a file cannot be shown. */
export type Failure = 'encrypted' | 'damaged';

export class PdfError extends Error {
  constructor(readonly failure: Failure) {
    super(failure);
  }
}

/** An open file. */
export class Pdf {
  private constructor(readonly document: PDFDocumentProxy) {}

  /** Opens a file. The signal closes it and ends the worker, also one that hangs. */
  static async open(data: ArrayBuffer, signal: AbortSignal): Promise<Pdf> {
    signal.throwIfAborted();
    const worker = new Worker(trusted);
    const task = getDocument({
      data: new Uint8Array(data),
      worker: PDFWorker.create({ port: worker as never }),
      isEvalSupported: false,
      useWasm: false,
      enableXfa: false,
      disableAutoFetch: true,
      maxImageSize: MAX_IMAGE_PIXELS,
      canvasMaxAreaInBytes: MAX_PIXELS * 4,
      verbosity: 0,
    });
    const end = (): void => worker.terminate();
    signal.addEventListener('abort', () => {
      setTimeout(end, CLOSING);
      void task.destroy().then(end, end);
    });
    // Without this, pdf.js waits for a password.
    task.onPassword = () => {
      throw new PdfError('encrypted');
    };
    try {
      return new Pdf(await task.promise);
    } catch (error) {
      end();
      const name = error instanceof Error ? error.name : '';
      throw new PdfError(name === 'PasswordException' || (error as PdfError).failure === 'encrypted' ? 'encrypted' : 'damaged');
    }
  }

  get pages(): number {
    return this.document.numPages;
  }

  page(number: number): Promise<PDFPageProxy> {
    return this.document.getPage(number);
  }
}

/** Draws a page so wide that it fits, times the zoom. Returns whether it has text. */
export async function draw(
  page: PDFPageProxy,
  canvas: HTMLCanvasElement,
  layer: HTMLElement,
  width: number,
  zoom: number,
  signal: AbortSignal,
): Promise<boolean> {
  const natural = page.getViewport({ scale: 1 });
  const viewport = page.getViewport({ scale: (width / natural.width) * zoom });
  const most = Math.sqrt(MAX_PIXELS / (viewport.width * viewport.height));
  const density = Math.min(window.devicePixelRatio || 1, most);
  // A new picture replaces the old one when it is complete.
  const picture = document.createElement('canvas');
  picture.width = Math.floor(viewport.width * density);
  picture.height = Math.floor(viewport.height * density);
  const task: RenderTask = page.render({ canvas: picture, viewport, transform: [density, 0, 0, density, 0, 0] });
  const stop = (): void => task.cancel();
  signal.addEventListener('abort', stop);
  try {
    await task.promise;
  } finally {
    signal.removeEventListener('abort', stop);
  }
  const source = await page.getTextContent();
  if (signal.aborted) return false;
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext('2d')?.drawImage(picture, 0, 0);
  layer.replaceChildren();
  for (const element of [canvas, layer]) {
    element.style.width = `${viewport.width}px`;
    element.style.height = `${viewport.height}px`;
  }
  layer.style.setProperty('--total-scale-factor', String(viewport.scale));
  const text = new TextLayer({ textContentSource: source, container: layer, viewport });
  await text.render();
  return text.textContentItemsStr.some((item) => item.trim());
}
