/** Beside each script and style sheet the same by brotli, a seventh smaller than by gzip: WhiteNoise sends it to who
 * takes it. Here, since Node has brotli and Python has none of its own. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";

import type { Plugin } from "vite";

const PACKED = /\.(js|css)$/;
const LEAST_BYTES = 1000;

export function brotli(): Plugin {
  return {
    name: "brotli",
    apply: "build",
    writeBundle(options, bundle) {
      for (const name of Object.keys(bundle).filter((one) => PACKED.test(one))) {
        const path = join(options.dir ?? "", name);
        const content = readFileSync(path);
        if (content.length >= LEAST_BYTES) writeFileSync(`${path}.br`, brotliCompressSync(content));
      }
    },
  };
}
