/** What a chart shows, as `portal/common/charts.py` writes it. */

export interface ChartLine {
  name: string;
  /** One for each time or name; null where nothing is known. */
  values: (number | null)[];
  /** A token of `tokens.css` such as `running`; else the next colour of the row. */
  colour?: string;
}

export interface ChartData {
  kind: "line" | "area" | "bar";
  /** Whether the lines lie on one another. Bars always do. */
  stacked: boolean;
  unit: string;
  /** The axis reaches up to this at least. */
  top?: number | null;
  /** Seconds since 1970, one for each value; or `names`, a bar for each. */
  times: number[];
  names: string[];
  /** The times at the chart's ends, in seconds, where they are not the first and last of `times`. */
  span?: [number, number] | null;
  lines: ChartLine[];
}

export const COLOURS = 8;
const DASHES: readonly (readonly number[])[] = [[], [6, 4], [2, 3]];

/** The CSS variable of the line's colour. */
export function colourOf(line: ChartLine, place: number): string {
  return line.colour ? `--berth-${line.colour}` : `--berth-series-${(place % COLOURS) + 1}`;
}

/** Lines beyond the eighth have the colours of the first, and are broken. */
export function dashOf(place: number): number[] {
  return [...(DASHES[Math.floor(place / COLOURS) % DASHES.length] ?? [])];
}

/** `1234.56` as `1235`, `12.34` as `12.3`, `1.234` as `1.23`: as the server writes them in the table. */
export function numberWords(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

/** Each visible line upon those before it; what is hidden or unknown adds nothing. */
export function stackedUp(lines: readonly ChartLine[], hidden: ReadonlySet<string>): (number | null)[][] {
  const sums: number[] = [];
  return lines.map((line) => {
    if (hidden.has(line.name)) return line.values.map(() => null);
    return line.values.map((value, place) => {
      if (value === null) return null;
      sums[place] = (sums[place] ?? 0) + value;
      return sums[place];
    });
  });
}

/** The value of the last time at which this line has one. */
export function latest(line: ChartLine): number | null {
  return line.values.findLast((value) => value !== null) ?? null;
}

/** What an axis writes at these moments (in seconds), `step` seconds apart. */
export function timeWords(splits: readonly number[], step: number, language?: string): string[] {
  const clock = new Intl.DateTimeFormat(language, {
    hour: "2-digit",
    minute: "2-digit",
    ...(step < 60 ? { second: "2-digit" as const } : {}),
    hourCycle: "h23",
  });
  const day = new Intl.DateTimeFormat(language, { month: "short", day: "numeric" });
  let before = "";
  return splits.map((split, place) => {
    const at = new Date(split * 1000);
    const date = at.toDateString();
    const changed = place > 0 && date !== before;
    before = date;
    return step >= 86_400 || changed ? day.format(at) : clock.format(at);
  });
}
