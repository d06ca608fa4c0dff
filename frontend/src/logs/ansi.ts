/**
 * Reads the escape sequences of a log (ECMA-48). Only colours and text styles (SGR) and "erase in line" mean
 * anything; every other sequence is swallowed, so that a hostile log can set no title, make no link and move nothing.
 */

/** How a piece of text looks. Instances are shared: equal looks are the same object. */
export interface Style {
  /** Classes such as `ansi-bold ansi-fg-1`, empty for plain text. */
  readonly classes: string;
  /** CSS colours beyond the 16 named ones. */
  readonly fg: string;
  readonly bg: string;
}

export const PLAIN: Style = { classes: "", fg: "", bg: "" };

/** What the reader finds, in order. */
export interface Sink {
  text(text: string): void;
  newline(): void;
  carriageReturn(): void;
  backspace(): void;
  /** 0: from the cursor to the end, 1: up to the cursor (what progress bars never use), 2: the whole line. */
  eraseLine(how: number): void;
}

const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;
const MAX_SEQUENCE = 256;
const MAX_STRING = 4096;

const Mode = { text: 0, escape: 1, charset: 2, csi: 3, string: 4, stringEscape: 5 } as const;
type State = (typeof Mode)[keyof typeof Mode];

/** One per stream: sequences may be cut anywhere between two records. */
export class AnsiReader {
  style: Style = PLAIN;
  readonly #look = new Look();
  #state: State = Mode.text;
  #held = "";
  #swallowed = 0;

  /** Reads the next piece of the stream. */
  read(piece: string, sink: Sink): void {
    let at = 0;
    while (at < piece.length) {
      at = this.#state === Mode.text ? this.#text(piece, at, sink) : this.#sequence(piece, at, sink);
    }
  }

  #text(piece: string, at: number, sink: Sink): number {
    CONTROL.lastIndex = at;
    const found = CONTROL.exec(piece);
    const end = found ? found.index : piece.length;
    if (end > at) sink.text(piece.slice(at, end));
    if (found) this.#control(found[0], sink);
    return end + 1;
  }

  #control(character: string, sink: Sink): void {
    switch (character) {
      case "\n":
        return sink.newline();
      case "\r":
        return sink.carriageReturn();
      case "\t":
        return sink.text("\t");
      case "\b":
        return sink.backspace();
      case "\x1b":
        this.#state = Mode.escape;
        return;
      case "\x9b":
        return this.#begin(Mode.csi);
      case "\x90":
      case "\x98":
      case "\x9d":
      case "\x9e":
      case "\x9f":
        return this.#begin(Mode.string);
      default: // bells, shifts and the like are not text
    }
  }

  #begin(state: State): void {
    this.#state = state;
    this.#held = "";
    this.#swallowed = 0;
  }

  /** One character of a sequence. A line break ends whatever sequence is unfinished. */
  #sequence(piece: string, at: number, sink: Sink): number {
    const character = piece[at] as string;
    if (character === "\n") {
      this.#state = Mode.text;
      return at;
    }
    switch (this.#state) {
      case Mode.escape:
        this.#escape(character);
        break;
      case Mode.charset:
        this.#state = Mode.text;
        break;
      case Mode.csi:
        this.#csi(character, sink);
        break;
      default:
        this.#string(character);
    }
    return at + 1;
  }

  #escape(character: string): void {
    if (character === "[") this.#begin(Mode.csi);
    else if ("]PX^_".includes(character)) this.#begin(Mode.string);
    else if ("()*+-./#% ".includes(character)) this.#state = Mode.charset;
    else if (character !== "\x1b") this.#state = Mode.text;
  }

  #csi(character: string, sink: Sink): void {
    if (character === "\x1b") {
      this.#state = Mode.escape;
    } else if (character >= "@" && character <= "~") {
      this.#state = Mode.text;
      if (character === "m") this.style = this.#look.apply(this.#held);
      else if (character === "K" && /^[0-2]?$/.test(this.#held)) sink.eraseLine(Number(this.#held));
    } else if (this.#held.length >= MAX_SEQUENCE) {
      this.#state = Mode.text;
    } else {
      this.#held += character;
    }
  }

  #string(character: string): void {
    this.#swallowed += 1;
    const ends = character === "\x07" || character === "\x9c";
    const closed = this.#state === Mode.stringEscape && character === "\\";
    if (ends || closed || this.#swallowed > MAX_STRING) this.#state = Mode.text;
    else this.#state = character === "\x1b" ? Mode.stringEscape : Mode.string;
  }
}

const FLAGS: Readonly<Record<number, readonly [string, boolean]>> = {
  1: ["bold", true],
  2: ["dim", true],
  3: ["italic", true],
  4: ["underline", true],
  7: ["inverse", true],
  9: ["strike", true],
  23: ["italic", false],
  24: ["underline", false],
  27: ["inverse", false],
  29: ["strike", false],
};

/** The standing look of a stream, changed by SGR parameters. */
class Look {
  static readonly #shared = new Map<string, Style>();
  readonly #flags = new Set<string>();
  #fg = "";
  #bg = "";

  /** `1;31` as it stood between `ESC [` and `m`. */
  apply(parameters: string): Style {
    if (/[^0-9;:]/.test(parameters)) return this.#style();
    const groups = parameters.split(";");
    for (let at = 0; at < groups.length; at += 1) {
      const group = groups[at] as string;
      const code = Number(group.split(":")[0]);
      if (code !== 38 && code !== 48) {
        this.#set(code);
      } else if (group.includes(":")) {
        const parts = group.split(":").slice(1).map(Number);
        // 38:2::r:g:b names a colour space that nobody fills in
        this.#colour(code, parts[0] === 2 && parts.length > 4 ? [2, ...parts.slice(2)] : parts);
      } else {
        const length = groups[at + 1] === "2" ? 4 : 2;
        this.#colour(code, groups.slice(at + 1, at + 1 + length).map(Number));
        at += length;
      }
    }
    return this.#style();
  }

  #set(code: number): void {
    const flag = FLAGS[code];
    if (code === 0) this.#reset();
    else if (flag) flag[1] ? this.#flags.add(flag[0]) : this.#flags.delete(flag[0]);
    else if (code === 22) ["bold", "dim"].forEach((name) => this.#flags.delete(name));
    else if (code >= 30 && code <= 37) this.#fg = String(code - 30);
    else if (code >= 90 && code <= 97) this.#fg = String(code - 82);
    else if (code === 39) this.#fg = "";
    else if (code >= 40 && code <= 47) this.#bg = String(code - 40);
    else if (code >= 100 && code <= 107) this.#bg = String(code - 92);
    else if (code === 49) this.#bg = "";
  }

  #reset(): void {
    this.#flags.clear();
    this.#fg = this.#bg = "";
  }

  #colour(code: number, [kind, ...values]: number[]): void {
    const value = kind === 5 ? indexed(values[0]) : kind === 2 ? rgb(values) : undefined;
    if (value === undefined) return;
    if (code === 38) this.#fg = value;
    else this.#bg = value;
  }

  #style(): Style {
    const classes = [...this.#flags].sort().map((flag) => `ansi-${flag}`);
    const named = (colour: string): boolean => colour !== "" && !colour.startsWith("rgb");
    if (named(this.#fg)) classes.push(`ansi-fg-${this.#fg}`);
    if (named(this.#bg)) classes.push(`ansi-bg-${this.#bg}`);
    const fg = named(this.#fg) ? "" : this.#fg;
    const bg = named(this.#bg) ? "" : this.#bg;
    const key = `${classes.join(" ")}|${fg}|${bg}`;
    if (key === "||") return PLAIN;
    const style = Look.#shared.get(key) ?? { classes: classes.join(" "), fg, bg };
    if (Look.#shared.size < 4096) Look.#shared.set(key, style);
    return style;
  }
}

function rgb(values: readonly number[]): string | undefined {
  const fits = values.length >= 3 && values.slice(0, 3).every((value) => value >= 0 && value <= 255);
  return fits ? `rgb(${values.slice(0, 3).join(" ")})` : undefined;
}

/** A colour of the 256: 0..15 are the named ones, then a 6x6x6 cube, then 24 greys (xterm). */
function indexed(index: number | undefined): string | undefined {
  if (index === undefined || !(index >= 0 && index <= 255)) return undefined;
  if (index < 16) return String(index);
  if (index >= 232) return rgb(Array<number>(3).fill(8 + 10 * (index - 232)));
  const level = (part: number): number => (part === 0 ? 0 : 55 + 40 * part);
  const place = index - 16;
  return rgb([level(Math.floor(place / 36)), level(Math.floor(place / 6) % 6), level(place % 6)]);
}
