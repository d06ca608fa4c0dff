/** How many screen rows a text fills in a fixed-width font when it is broken at `columns`. */

const PLAIN = /^[\x20-\x7e]*$/;
const NONE = /\p{M}|\u200b|\u200d|\ufe0f/u;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const TAB = 8;

/** Whether each character is one column wide, so that `rowsOf` is exact and not a first guess. */
export function isPlain(text: string): boolean {
  return PLAIN.test(text);
}

export function rowsOf(text: string, columns: number): number {
  if (text.length * 2 <= columns && !text.includes("\t")) return 1;
  if (isPlain(text)) return Math.max(1, Math.ceil(text.length / columns));
  let rows = 1;
  let column = 0;
  for (const character of text) {
    if (NONE.test(character)) continue;
    const width = character === "\t" ? TAB - (column % TAB) : WIDE.test(character) ? 2 : 1;
    if (column + width > columns) {
      rows += 1;
      column = 0;
    }
    column += width;
  }
  return rows;
}
