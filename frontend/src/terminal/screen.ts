/** The terminal's screen: xterm.js, from which nothing that a program prints gets out. */

import "@xterm/xterm/css/xterm.css";

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";

/**
 * Sequences that would reach beyond the screen, or ask for what lies beyond it: title (0–2), the palette and its
 * answers (4, 5, 10–19, 104–119), folder (7), links (8), notices (9, 777, 99), fonts (50), clipboard (52), and what other
 * terminals have made of it.
 */
const SWALLOWED = [
  0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 50, 52, 99, 104, 105, 106, 110, 111, 112, 113, 114,
  115, 116, 117, 118, 119, 133, 633, 777, 1337,
];
const SCROLLBACK = 5000;
/** More than this waiting to be shown is skipped: a program may print faster than anybody draws. */
const MOST_WAITING = 16 << 20;
/** As the log has them (`--log-0` …); names as xterm.js spells them behind `bright`. */
const COLOURS = ["Black", "Red", "Green", "Yellow", "Blue", "Magenta", "Cyan", "White"];
const BRIGHTER: Readonly<Record<number, number>> = { 0: 8, 7: 15 };

export interface ScreenHandlers {
  typed: (data: Uint8Array) => void;
  resized: (rows: number, columns: number) => void;
  /** By Shift+Escape: Tab belongs to the program. */
  left: () => void;
}

export class Screen {
  readonly #terminal: Terminal;
  readonly #fit = new FitAddon();
  readonly #skippedWord: string;
  #waiting = 0;
  #skipped = false;

  constructor(box: HTMLElement, skippedWord: string, handlers: ScreenHandlers) {
    this.#skippedWord = skippedWord;
    this.#terminal = new Terminal({
      scrollback: SCROLLBACK,
      fontFamily: token("--berth-mono"),
      fontSize: 13,
      theme: theme(),
      windowOptions: {},
      linkHandler: { activate: () => undefined },
      logLevel: "off",
    });
    this.#terminal.loadAddon(this.#fit);
    this.#close();
    this.#terminal.open(box);
    this.#terminal.onData((text) => handlers.typed(new TextEncoder().encode(text)));
    this.#terminal.onBinary((text) => handlers.typed(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.#terminal.onResize(({ rows, cols }) => handlers.resized(rows, cols));
    this.#terminal.attachCustomKeyEventHandler((event) => this.#key(event, handlers));
    new ResizeObserver(() => this.#fit.fit()).observe(box);
    new MutationObserver(() => {
      this.#terminal.options.theme = theme();
    }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });
    this.#fit.fit();
  }

  get size(): { rows: number; columns: number } {
    return { rows: this.#terminal.rows, columns: this.#terminal.cols };
  }

  /** Anew, and listening. */
  begin(): void {
    this.#terminal.reset();
    this.#terminal.options.disableStdin = false;
    this.#terminal.options.cursorBlink = true;
    this.#terminal.focus();
  }

  end(): void {
    this.#terminal.options.disableStdin = true;
    this.#terminal.options.cursorBlink = false;
  }

  write(data: Uint8Array): void {
    if (this.#waiting + data.length > MOST_WAITING) {
      this.#skipped = true;
      return;
    }
    this.#waiting += data.length;
    this.#terminal.write(data, () => {
      this.#waiting -= data.length;
      if (!this.#skipped || this.#waiting) return;
      this.#skipped = false;
      this.#terminal.write(`\x18\x1b[0m\r\n[${this.#skippedWord}]\r\n`);
    });
  }

  #close(): void {
    const { parser } = this.#terminal;
    for (const number of SWALLOWED) parser.registerOscHandler(number, () => true);
    parser.registerCsiHandler({ final: "t" }, () => true); // moving, sizing and asking about the window
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
  }

  /** Whether the terminal gets the key. */
  #key(event: KeyboardEvent, handlers: ScreenHandlers): boolean {
    if (event.type !== "keydown") return true;
    const both = event.ctrlKey && event.shiftKey;
    if (event.shiftKey && event.key === "Escape") {
      handlers.left();
      return false;
    }
    if (both && event.code === "KeyC") {
      event.preventDefault();
      const chosen = this.#terminal.getSelection();
      if (chosen) void navigator.clipboard?.writeText(chosen);
      return false;
    }
    return !(both && event.code === "KeyV"); // the browser pastes
  }
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function theme(): Record<string, string> {
  const found: Record<string, string> = {
    background: token("--berth-surface"),
    foreground: token("--berth-text"),
    cursor: token("--berth-link"),
    selectionBackground: `${token("--berth-link")}55`,
  };
  for (const [place, name] of COLOURS.entries()) {
    found[name.toLowerCase()] = token(`--log-${place}`);
    found[`bright${name}`] = token(`--log-${BRIGHTER[place] ?? place}`);
  }
  return found;
}
