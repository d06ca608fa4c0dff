/** What stands under `secrets`, and passwords of registries, is drawn as dots until somebody wants to see it. */

import { type Range, RangeSetBuilder, type Text } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, type ViewUpdate } from "@codemirror/view";

const SECTION = /^(["']?)secrets\1\s*:/;
const NAMED = /^(\s*(?:- )?(?:"[^"]*"|'[^']*'|[^\s:#]+)\s*:\s+)(\S.*)$/;
const PASSWORD = /(\bpassword["']?\s*:\s*)([^\s#}][^},]*)/;
const dots = Decoration.mark({ class: "secret-text" });

/** Where in the lines secrets stand: line (from 0), from and to (columns). */
export function secretPlaces(lines: Iterable<string>): [line: number, from: number, to: number][] {
  const found: [number, number, number][] = [];
  let inside = false;
  let number = -1;
  for (const line of lines) {
    number += 1;
    const begins = SECTION.exec(line);
    if (begins) inside = true;
    else if (/^[^\s#]/.test(line)) inside = false;
    const place = begins ? begins[0].length : inside ? lineStart(line) : passwordStart(line);
    const to = line.trimEnd().length;
    if (place !== undefined && place < to) found.push([number, place, to]);
  }
  return found;
}

/** A key that stands alone is none of the secret. */
const ALONE = /^\s*(?:- )?(?:"[^"]*"|'[^']*'|[^\s:#]+)\s*:\s*$/;

function lineStart(line: string): number | undefined {
  if (ALONE.test(line)) return undefined;
  return NAMED.exec(line)?.[1]?.length ?? line.length - line.trimStart().length;
}

function passwordStart(line: string): number | undefined {
  const found = PASSWORD.exec(line);
  return found && !found[2]?.includes("$secrets") ? found.index + (found[1]?.length ?? 0) : undefined;
}

function decorations(doc: Text): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const [line, from, to] of secretPlaces(doc.iterLines())) {
    const start = doc.line(line + 1).from;
    const range: Range<Decoration> = dots.range(start + from, start + to);
    builder.add(range.from, range.to, range.value);
  }
  return builder.finish();
}

export const masked = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;

    constructor(view: EditorView) {
      this.decorations = decorations(view.state.doc);
    }

    update(update: ViewUpdate): void {
      if (update.docChanged) this.decorations = decorations(update.state.doc);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
