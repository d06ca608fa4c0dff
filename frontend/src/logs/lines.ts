/** Puts the records of a log together to lines: records are cut anywhere, streams are mixed. */

import { AnsiReader, PLAIN, type Sink, type Style } from "./ansi.ts";

/** `[time in ms, stream, text]` as the portal sends it. */
export type LogRecord = readonly [number, number, string];

export const STDOUT = 1;
export const STDERR = 2;
export const MARK = 3;

export interface Span {
  text: string;
  style: Style;
}

/** A task whose log stands among others: its name, and one of `COLOURS` colours. */
export interface TaskName {
  readonly name: string;
  readonly colour: number;
}

/** A line of the log; the last one of a stream may still grow or be written over. */
export interface Line {
  time: number;
  stream: number;
  spans: Span[];
  /** Grows with each change. */
  version: number;
  /** Begins in the middle: what stands before it is not loaded. */
  torn: boolean;
  /** No line break has come yet. */
  open: boolean;
  /** Its end is not in the log yet, and may be another. */
  provisional?: boolean;
  /** Among the logs of several tasks: whose it is, and the time by which it is ordered. */
  task?: TaskName;
  order?: number;
}

/** Longer lines go on in a new one, so that a gigabyte without a line break stays readable. */
export const MAX_LINE = 8192;

export function lineText(line: Line): string {
  const [first] = line.spans;
  return line.spans.length === 1 && first ? first.text : line.spans.map((span) => span.text).join("");
}

/** The line of a stream that is being written, and the cursor in it. */
class OpenLine implements Sink {
  readonly reader = new AnsiReader();
  line: Line | undefined;
  time = 0;
  #cursor = 0;
  #length = 0;
  readonly #stream: number;
  readonly #begun: (line: Line) => void;
  #first: boolean;
  /** What the line had before its tail. */
  #kept: Span[] | undefined;

  constructor(stream: number, begun: (line: Line) => void, torn: boolean) {
    this.#stream = stream;
    this.#begun = begun;
    this.#first = torn;
  }

  text(text: string): void {
    let rest = text;
    while (rest.length > MAX_LINE - this.#cursor) {
      const room = splitPlace(rest, Math.max(0, MAX_LINE - this.#cursor));
      if (room > 0) this.#write(rest.slice(0, room));
      this.newline();
      rest = rest.slice(room);
    }
    if (rest) this.#write(rest);
  }

  #write(text: string): void {
    const line = (this.line ??= this.#begin());
    const { style } = this.reader;
    if (this.#cursor === this.#length) {
      const last = line.spans.at(-1);
      if (last && last.style === style) last.text += text;
      else line.spans.push({ text, style });
    } else {
      const after = this.#cursor + text.length;
      line.spans = joined([
        ...cut(line.spans, 0, this.#cursor),
        { text, style },
        ...cut(line.spans, after, this.#length),
      ]);
    }
    this.#cursor += text.length;
    this.#length = Math.max(this.#length, this.#cursor);
    line.version += 1;
  }

  /** What stands behind that which came, as far as it is known; it is taken back with what comes next. */
  tail(time: number, text: string): void {
    this.takeBack();
    const shown = new OpenLine(this.#stream, () => undefined, false);
    shown.reader.read(text, shown);
    if (!shown.line) return;
    this.time = time;
    const line = (this.line ??= this.#begin());
    this.#kept = line.spans.map((span) => ({ ...span }));
    line.spans = text.startsWith("\r") ? shown.line.spans : joined([...this.#kept, ...shown.line.spans]);
    line.provisional = true;
    line.version += 1;
  }

  takeBack(): void {
    if (!this.line || !this.#kept) return;
    this.line.spans = this.#kept;
    this.line.provisional = false;
    this.line.version += 1;
    this.#kept = undefined;
  }

  newline(): void {
    const line = (this.line ??= this.#begin());
    line.open = false;
    line.version += 1;
    this.line = undefined;
    this.#cursor = this.#length = 0;
  }

  carriageReturn(): void {
    this.#cursor = 0;
  }

  backspace(): void {
    this.#cursor = Math.max(0, this.#cursor - 1);
  }

  eraseLine(how: number): void {
    if (!this.line || how === 1) return;
    const keep = how === 2 ? 0 : this.#cursor;
    this.line.spans = cut(this.line.spans, 0, keep);
    this.line.version += 1;
    this.#length = keep;
    this.#cursor = Math.min(this.#cursor, keep);
  }

  #begin(): Line {
    const line = { time: this.time, stream: this.#stream, spans: [], version: 0, torn: this.#first, open: true };
    this.#first = false;
    this.#begun(line);
    return line;
  }
}

/** Where to cut so that no surrogate pair is split. */
function splitPlace(text: string, place: number): number {
  const code = text.charCodeAt(place - 1);
  return place > 1 && code >= 0xd800 && code <= 0xdbff ? place - 1 : place;
}

/** The spans between two columns; half of a surrogate pair at a border becomes a blank. */
function cut(spans: readonly Span[], from: number, to: number): Span[] {
  const kept: Span[] = [];
  let at = 0;
  for (const span of spans) {
    const text = span.text.slice(Math.max(0, from - at), Math.max(0, to - at));
    at += span.text.length;
    if (text) kept.push({ text: text.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, " "), style: span.style });
  }
  return kept;
}

function joined(spans: readonly Span[]): Span[] {
  const result: Span[] = [];
  for (const span of spans) {
    const last = result.at(-1);
    if (last && last.style === span.style) last.text += span.text;
    else result.push({ ...span });
  }
  return result;
}

/** Takes records in order and hands out lines in the order in which they began. */
export class LineAssembler {
  readonly #open: Record<number, OpenLine>;
  readonly #begun: (line: Line) => void;

  #tail: readonly LogRecord[] = [];

  /** `torn`: the first record may begin in the middle of a line. */
  constructor(begun: (line: Line) => void, torn: boolean) {
    this.#begun = begun;
    this.#open = {
      [STDOUT]: new OpenLine(STDOUT, begun, torn),
      [STDERR]: new OpenLine(STDERR, begun, torn),
    };
  }

  /** Whether a line waits for its end. */
  get unfinished(): boolean {
    return Object.values(this.#open).some((open) => open.line !== undefined);
  }

  push([time, stream, text]: LogRecord): void {
    const open = this.#open[stream];
    if (!open) {
      this.#mark(time, text);
      return;
    }
    if (this.#tail.length > 0) {
      open.takeBack();
      this.#tail = this.#tail.filter(([, other]) => other !== stream);
    }
    open.time = time;
    open.reader.read(text, open);
  }

  /** What there is of lines without an end, in place of what there was. */
  tail(records: readonly LogRecord[]): void {
    this.#tail = records;
    for (const open of Object.values(this.#open)) open.takeBack();
    for (const [time, stream, text] of records) this.#open[stream]?.tail(time, text);
  }

  /** Does something to the lines as they are in the log. */
  withoutTail(act: () => void): void {
    const tail = this.#tail;
    this.tail([]);
    act();
    this.tail(tail);
  }

  #mark(time: number, text: string): void {
    for (const part of text.replace(/\n$/, "").split("\n")) {
      const plain = part.replace(/[\x00-\x1f\x7f-\x9f]/g, "");
      this.#begun({
        time,
        stream: MARK,
        spans: [{ text: plain, style: PLAIN }],
        version: 0,
        torn: false,
        open: false,
      });
    }
  }
}

/** What is said in the place of so many bytes of a log that are nowhere any more, as the portal says it. */
export function lostRecord(time: number, bytes: number): LogRecord {
  return [time, MARK, `… ${bytes} bytes of this log are lost\n`];
}

/** `earlier` ends where what is held begins, of which `first` gives the first line of a stream: the lines that the
 * border has cut become one again. */
export function mend(earlier: Line[], first: (stream: number) => Line | undefined): void {
  for (const stream of new Set(earlier.map((line) => line.stream))) {
    const head = earlier.findLast((line) => line.stream === stream);
    const tail = head?.open ? first(stream) : undefined;
    if (!head || !tail?.torn) continue;
    tail.spans = [...head.spans, ...tail.spans];
    tail.time = head.time;
    tail.torn = head.torn;
    tail.version += 1;
    earlier.splice(earlier.lastIndexOf(head), 1);
  }
}

/** Positions of the lines that contain `text`, without regard to case. */
export function found(lines: readonly Line[], text: string): number[] {
  const wanted = text.toLowerCase();
  const places: number[] = [];
  lines.forEach((line, place) => {
    if (lineText(line).toLowerCase().includes(wanted)) places.push(place);
  });
  return places;
}
