import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

// The library of scroll bars that Grafana's tables use is of a module form that Vite misreads.
const scrollbars = fileURLToPath(new URL('./src/scrollbars.jsx', import.meta.url));

export default defineConfig({
  base: './',
  resolve: { alias: { 'react-custom-scrollbars-2': scrollbars } },
  build: { outDir: 'dist', target: 'es2022' },
  define: { 'process.env': {}, global: 'globalThis' },
});
