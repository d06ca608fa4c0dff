/** The lines of a log that the browser holds: a stretch of it that grows at both ends, within a limit. */

import { LineAssembler, lineText, type Line, type LogRecord } from "./lines.ts";

export const MAX_LINES = 300_000;
/** Dropping in large steps keeps the cost per line constant. */
const STEP = 50_000;

export class LogBuffer {
  lines: Line[] = [];
  /** The log's offset of the first line held; undefined once lines were dropped. */
  start: number | undefined;
  /** How many lines stand before the first one held; undefined when nobody has counted them. */
  before: number | undefined;
  dropped = 0;
  readonly #live: LineAssembler;

  constructor(start: number) {
    this.start = start;
    this.before = start === 0 ? 0 : undefined;
    this.#live = new LineAssembler((line) => this.lines.push(line), start > 0);
  }

  append(records: readonly LogRecord[]): void {
    for (const record of records) this.#live.push(record);
  }

  /** Drops the oldest lines beyond the limit and says how many. */
  trim(limit = MAX_LINES, step = STEP): number {
    if (this.lines.length <= limit + step) return 0;
    const count = this.lines.length - limit;
    this.lines = this.lines.slice(count);
    this.dropped += count;
    if (this.before !== undefined) this.before += count;
    this.start = undefined;
    return count;
  }

  /** Puts what stands before the first line in front; `from` is its offset. Returns the number of lines added. */
  prepend(records: readonly LogRecord[], from: number): number {
    const earlier: Line[] = [];
    const assembler = new LineAssembler((line) => earlier.push(line), from > 0);
    for (const record of records) assembler.push(record);
    for (const stream of new Set(earlier.map((line) => line.stream))) this.#mend(earlier, stream);
    this.lines = earlier.concat(this.lines);
    this.start = from;
    this.before = from === 0 ? 0 : undefined;
    return earlier.length;
  }

  /** The line that was cut by the border becomes one again. */
  #mend(earlier: Line[], stream: number): void {
    const head = earlier.findLast((line) => line.stream === stream);
    const tail = this.lines.find((line) => line.stream === stream);
    if (!head?.open || !tail?.torn) return;
    tail.spans = [...head.spans, ...tail.spans];
    tail.time = head.time;
    tail.torn = head.torn;
    tail.version += 1;
    earlier.splice(earlier.lastIndexOf(head), 1);
  }

  /** Positions of the lines that contain `text`, without regard to case. */
  search(text: string): number[] {
    const wanted = text.toLowerCase();
    const found: number[] = [];
    this.lines.forEach((line, place) => {
      if (lineText(line).toLowerCase().includes(wanted)) found.push(place);
    });
    return found;
  }
}
