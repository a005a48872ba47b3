/** Path of the licences of the packages that the page contains; see `vite.config.ts`. */
declare const __LICENCES__: string;
