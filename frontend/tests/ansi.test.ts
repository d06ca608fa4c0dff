import { describe, expect, test } from "vitest";

import { LineAssembler, lineText, MARK, MAX_LINE, STDERR, STDOUT, type Line, type LogRecord } from "../src/logs/lines.ts";

function assemble(records: readonly LogRecord[], torn = false): Line[] {
  const lines: Line[] = [];
  const assembler = new LineAssembler((line) => lines.push(line), torn);
  for (const record of records) assembler.push(record);
  return lines;
}

/** The texts of the lines that one stream makes, fed as given and again one character at a time. */
function texts(input: string): string[] {
  const whole = assemble([[0, STDOUT, input]]).map(lineText);
  const single = assemble([...input].map((character) => [0, STDOUT, character] as const)).map(lineText);
  expect(single).toEqual(whole);
  return whole;
}

const looks = (input: string): string[][] =>
  assemble([[0, STDOUT, input]]).map((line) => line.spans.map((span) => `${span.style.classes}${span.style.fg}:${span.text}`));

describe("lines", () => {
  test.each([
    ["a line break ends a line", "one\ntwo\n", ["one", "two"]],
    ["the last line may be unfinished", "one\ntw", ["one", "tw"]],
    ["empty lines count", "\n\nx", ["", "", "x"]],
    ["Windows line ends are line ends", "a\r\nb\r\n", ["a", "b"]],
    ["a progress bar overwrites itself", "10%\r50%\r100%\ndone", ["100%", "done"]],
    ["a shorter text overwrites only what it covers", "abcdef\rXY\n", ["XYcdef"]],
    ["erasing the line removes the rest", "abcdef\rXY\x1b[K\n", ["XY"]],
    ["erasing the whole line empties it", "abcdef\x1b[2K\rXY\n", ["XY"]],
    ["backspace moves back", "abc\b\bX\n", ["aXc"]],
    ["bells, NULs and C1 controls are no text", "a\x07\x00\x0e\x85b\n", ["ab"]],
  ])("%s", (_, input, expected) => expect(texts(input)).toEqual(expected));

  test("a character of two units that is half overwritten leaves no half", () => {
    expect(texts("a😀b\rxy\n")[0]).toBe("xy b");
  });

  test("streams that are mixed keep their own lines, in the order of their beginning", () => {
    const lines = assemble([
      [1, STDOUT, "out: "],
      [2, STDERR, "err: "],
      [3, STDOUT, "a\n"],
      [4, STDERR, "b\n"],
    ]);
    expect(lines.map((line) => [line.time, line.stream, lineText(line)])).toEqual([
      [1, STDOUT, "out: a"],
      [2, STDERR, "err: b"],
    ]);
  });

  test("a colour of one stream does not run into the other", () => {
    const lines = assemble([
      [0, STDOUT, "\x1b[31mred "],
      [0, STDERR, "plain\n"],
    ]);
    expect(lines[1]?.spans[0]?.style.classes).toBe("");
  });

  test("a mark is a line of its own and reads no escape sequence", () => {
    const [line] = assemble([[5, MARK, "1,024 lines \x1b[31mdropped\n"]]);
    expect(line).toMatchObject({ stream: MARK, open: false });
    expect(lineText(line as Line)).toBe("1,024 lines [31mdropped");
  });

  test("only the first line of a stream read from the middle is torn", () => {
    const lines = assemble([[0, STDOUT, "end of a line\nnext\n"]], true);
    expect(lines.map((line) => line.torn)).toEqual([true, false]);
  });

  test("a line without end is shown in pieces", () => {
    const lines = texts("x".repeat(3 * MAX_LINE + 5));
    expect(lines.map((line) => line.length)).toEqual([MAX_LINE, MAX_LINE, MAX_LINE, 5]);
  });
});

describe("colours", () => {
  test.each([
    ["named", "\x1b[31mred\x1b[0m plain", ["ansi-fg-1:red", ": plain"]],
    ["bright", "\x1b[92mgreen", ["ansi-fg-10:green"]],
    ["of the 256, one of the named", "\x1b[38;5;4mblue", ["ansi-fg-4:blue"]],
    ["of the 256, from the cube", "\x1b[38;5;208morange", ["rgb(255 135 0):orange"]],
    ["of the 256, a grey", "\x1b[38;5;232mgrey", ["rgb(8 8 8):grey"]],
    ["by red, green, blue", "\x1b[38;2;1;2;3mx", ["rgb(1 2 3):x"]],
    ["by red, green, blue with colons", "\x1b[38:2::1:2:3mx", ["rgb(1 2 3):x"]],
    ["several at once", "\x1b[1;4;31mx\x1b[22my\x1b[24;39mz", ["ansi-bold ansi-underline ansi-fg-1:x", "ansi-underline ansi-fg-1:y", ":z"]],
    ["an empty parameter resets", "\x1b[31mx\x1b[my", ["ansi-fg-1:x", ":y"]],
    ["numbers that are no colour change nothing", "\x1b[38;5;999mx\x1b[38;2;1;2;300my", [":xy"]],
  ])("%s", (_, input, expected) => expect(looks(input)[0]).toEqual(expected));
});

describe("hostile sequences do nothing", () => {
  test.each([
    ["a window title", "a\x1b]0;owned\x07b"],
    ["a title ended by ST", "a\x1b]2;owned\x1b\\b"],
    ["a link", "a\x1b]8;;https://evil.example/\x1b\\\x1b]8;;\x1b\\b"],
    ["a clipboard write", "a\x1b]52;c;cm0gLXJm\x07b"],
    ["a device control string", "a\x1bP+q544e\x1b\\b"],
    ["an application command", "a\x1b_Gi=1;AAAA\x1b\\b"],
    ["moving the cursor", "a\x1b[10A\x1b[5;5Hb"],
    ["clearing the screen", "a\x1b[2J\x1b[3Jb"],
    ["asking the terminal for an answer", "a\x1b[6n\x1b[c\x1b[>cb"],
    ["another screen", "a\x1b[?1049h\x1b[?25lb"],
    ["another character set", "a\x1b(0\x1b)Bb"],
    ["a reset of the terminal", "a\x1bcb"],
    ["C1 forms", "a\x9d0;owned\x9c\x9b6nb"],
    ["private parameters of SGR", "a\x1b[>4;2m\x1b[?1mb"],
  ])("%s", (_, input) => {
    expect(texts(`${input}\n`)).toEqual(["ab"]);
    expect(looks(input)[0]).toEqual([":ab"]);
  });

  test("a sequence without end hides no more than its own line", () => {
    expect(texts("\x1b]0;never ended\nnext\n")).toEqual(["", "next"]);
    expect(texts("\x1b[1;2;3\nnext\n")).toEqual(["", "next"]);
  });

  test("a sequence of a million characters is given up", () => {
    const [line] = texts(`\x1b]0;${"x".repeat(5000)}`);
    expect(line?.length).toBeGreaterThan(0);
  });

  test("a log that is nothing but markup is text", () => {
    expect(texts("<img src=x onerror=alert(1)>\n")).toEqual(["<img src=x onerror=alert(1)>"]);
  });
});
