/** What would become of the job were it submitted now, in words. */

import { momentWords } from "../behaviours/times.ts";

export interface Outlook {
  nodes: string[];
  waiting: { message: string; place: number | null } | null;
  start: { p50: string; p90: string } | null;
  no_start: string;
}

/** The page's sentences, with `{name}` where something goes in. */
export interface Sentences {
  now: string;
  wait: string;
  place: string;
  when: string;
}

export function outlookWords(outlook: Outlook, say: Sentences): string {
  if (!outlook.waiting) return fill(say.now, { nodes: outlook.nodes.join(", ") });
  const { message, place } = outlook.waiting;
  const parts = [fill(say.wait, { message })];
  if (place !== null) parts.push(fill(say.place, { place: String(place) }));
  parts.push(
    outlook.start
      ? fill(say.when, { p50: momentWords(new Date(outlook.start.p50)), p90: momentWords(new Date(outlook.start.p90)) })
      : outlook.no_start,
  );
  return parts.join(" ");
}

export function fill(sentence: string, values: Record<string, string>): string {
  return sentence.replace(/\{(\w+)\}/g, (hole, name: string) => values[name] ?? hole);
}
