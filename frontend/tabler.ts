/** Of Tabler's style sheet, which has all of Bootstrap and much more, what the pages use.
 *
 * A rule is kept where each of its classes, elements and attributes stands as a word anywhere in the templates, in the
 * scripts or in the portal's Python; more is kept than is needed, and nothing that is spelt out is lost. Names that
 * are put together (`is-{{ state }}`) are ours alone, and our own style sheets are taken whole. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { PurgeCSS } from "purgecss";
import type { Plugin } from "vite";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PLACES: [string, RegExp][] = [
  [join(HERE, "templates"), /\.html$/],
  [join(HERE, "src"), /\.(ts|css)$/],
  [join(HERE, "..", "portal"), /\.(py|html)$/],
];
const SHEET = /tabler[^/]*\.css$/;
const WORD = /[A-Za-z0-9_-]+/g;

export function tablerUsed(): Plugin {
  return {
    name: "tabler-used",
    enforce: "pre",
    async transform(code, id) {
      if (!SHEET.test(id)) return null;
      const words = new Set(texts().flatMap((text) => text.match(WORD) ?? []));
      const variables = [...words].filter((word) => word.startsWith("--"));
      const purged = await new PurgeCSS().purge({
        content: [{ raw: [...words].join(" "), extension: "txt" }],
        css: [{ raw: code }],
        defaultExtractor: (text) => text.match(WORD) ?? [],
        dynamicAttributes: ["data-bs-theme", "disabled", "hidden", "open", "type", "multiple", "size"],
        keyframes: true,
        fontFace: true,
        variables: true,
        safelist: { variables },
      });
      return { code: purged[0]?.css ?? code, map: null };
    },
  };
}

function texts(): string[] {
  return PLACES.flatMap(([folder, name]) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((path) => name.test(path))
      .map((path) => readFileSync(join(folder, path), "utf8")),
  );
}
