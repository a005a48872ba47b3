// Previews that are loaded when a file of their kind is first opened.

import type { Component } from 'svelte';
import type { Source } from '../../lib/files';
import type { Content } from '../../lib/preview';

type Viewer = Component<{ source: Source; content: Content }>;

export const viewers = {
  html: (): Promise<{ default: Viewer }> => import('./Html.svelte'),
  pdf: (): Promise<{ default: Viewer }> => import('./Pdf.svelte'),
  converted: (): Promise<{ default: Viewer }> => import('./Converted.svelte'),
};

export const isViewer = (kind: string): kind is keyof typeof viewers => Object.hasOwn(viewers, kind);
