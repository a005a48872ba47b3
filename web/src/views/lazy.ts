// Views that are loaded when they are first opened.

import type { Component } from 'svelte';
import type { View } from '../lib/route.svelte';

export const views: Record<View, () => Promise<{ default: Component }>> = {
  files: () => import('./Files.svelte'),
  activity: () => import('./Activity.svelte'),
  tools: () => import('./Tools.svelte'),
  settings: () => import('./Settings.svelte'),
  admin: () => import('./Admin.svelte'),
};
