/** Why something cannot be packed: which of the page's sentences says it, and what goes into that. */
export class Refusal extends Error {
  readonly word: string;
  readonly values: Record<string, string>;

  constructor(word: string, values: Record<string, string> = {}) {
    super(word);
    this.word = word;
    this.values = values;
  }
}

/** The most that an archive may take: its bytes, those of its files, and how many they are. */
export interface Limits {
  size: number;
  unpacked: number;
  entries: number;
}

/** A file to pack; `path` is relative to the folder of code, with slashes. */
export interface Packed {
  path: string;
  content: Blob;
  executable: boolean;
}

export function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(bytes < 10 * 2 ** 20 ? 1 : 0);
}
