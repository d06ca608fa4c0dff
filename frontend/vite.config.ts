import { defineConfig } from "vite";

import { brotli } from "./brotli.ts";
import { tablerUsed } from "./tabler.ts";

// Django serves the result under /static/; portal/common/templatetags/frontend.py reads the manifest.
export default defineConfig({
  base: "/static/",
  plugins: [tablerUsed(), brotli()],
  publicDir: "public",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    target: "es2022",
    rolldownOptions: {
      input: { main: "src/main.ts", theme: "src/theme.ts", apiDocs: "src/api-docs.ts" },
    },
  },
});
