import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { chosen } from "../src/code/folder.ts";
import type { Limits, Packed } from "../src/code/refusal.ts";
import { archive } from "../src/code/sending.ts";
import { unzipped } from "../src/code/zip.ts";

const LIMITS: Limits = { size: 1000, unpacked: 5000, entries: 5 };

function packed(files: Record<string, string>): Packed[] {
  return Object.entries(files).map(([path, text]) => ({ path, content: new Blob([text]), executable: false }));
}

const names = async (files: Record<string, string>): Promise<string[]> => {
  const found = await chosen(packed(files), { ...LIMITS, entries: 20 });
  return found.map((file) => file.path).sort();
};

/** A zip made by Python, whose entries may be as no honest program writes them. */
function zip(script: string): Blob {
  const path = join(mkdtempSync(join(tmpdir(), "zip-")), "made.zip");
  const before = "import sys, zipfile\nfrom zipfile import ZipFile, ZipInfo\nz = ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\n";
  execFileSync("python3", ["-c", `${before}${script}\nz.close()`, path]);
  return new Blob([readFileSync(path)]);
}

describe("what of a folder comes along", () => {
  test("its own name stays out, and so does what belongs to git", async () => {
    expect(await names({ "code/.git/config": "x", "code/train.py": "x", "code/lib/a.py": "x" })).toEqual(["lib/a.py", "train.py"]);
  });

  test("ignore files count in their folders, and .berthignore has the last word", async () => {
    const files = {
      ".gitignore": "data/\n*.log\n!keep.log",
      ".berthignore": "!data/\nbig.bin",
      "data/x": "",
      "a.log": "",
      "keep.log": "",
      "big.bin": "",
      "lib/.gitignore": "*.tmp",
      "lib/a.tmp": "",
      "b.tmp": "",
    };
    expect(await names(files)).toEqual([".berthignore", ".gitignore", "b.tmp", "data/x", "keep.log", "lib/.gitignore"]);
  });

  test.each<[string, Record<string, string>]>([
    ["Empty", { ".git/x": "" }],
    ["TooMany", Object.fromEntries([1, 2, 3, 4, 5, 6].map((number) => [`f${number}`, ""]))],
    ["TooLarge", { big: "x".repeat(6000) }],
  ])("%s", async (word, files) => {
    await expect(chosen(packed(files), LIMITS)).rejects.toMatchObject({ word });
  });
});

test.each([98, 99, 100, 101, 255])("tar reads a name of %i bytes", async (length) => {
  const name = "n".repeat(length);
  const made = await archive(await chosen(packed({ [`top/${name}`]: "x" }), LIMITS), LIMITS);
  const read = execFileSync("tar", ["-tzf", "-"], { input: Buffer.from(await made.content.arrayBuffer()), encoding: "utf8" });
  expect(read).toBe(`${name}\n`);
});

test("the archive is one that tar reads, long names and all", async () => {
  const long = `${"folder-ü/".repeat(20)}train.py`;
  const files = packed({ "top/run.sh": "#!/bin/sh\n", [`top/${long}`]: "print(1)\n" });
  (files[0] as Packed).executable = true;
  const made = await archive(files, LIMITS);
  const folder = mkdtempSync(join(tmpdir(), "tar-"));
  writeFileSync(join(folder, "code.tar.gz"), Buffer.from(await made.content.arrayBuffer()));
  execFileSync("tar", ["-xzf", "code.tar.gz"], { cwd: folder });
  expect(readFileSync(join(folder, long), "utf8")).toBe("print(1)\n");
  expect(execFileSync("ls", ["-l", "run.sh"], { cwd: folder, encoding: "utf8" })).toContain("-rwxr-xr-x");
  expect(made.files).toBe(2);
});

test("what is too large even when packed is not sent", async () => {
  const noise = Array.from({ length: 3000 }, (_one, at) => String.fromCharCode(33 + ((at * at * 7919) % 94))).join("");
  await expect(archive(packed({ a: noise }), { ...LIMITS, size: 100 })).rejects.toMatchObject({ word: "Packed" });
});

describe("a zip", () => {
  test("gives its files, with what can be run", async () => {
    const made = zip("i = ZipInfo('code/run.sh'); i.external_attr = 0o100755 << 16; z.writestr(i, 'x'); z.writestr('code/ü/a.py', 'y' * 999)");
    const files = await unzipped(made, LIMITS);
    expect(files.map((file) => [file.path, file.content.size, file.executable])).toEqual([
      ["code/run.sh", 1, true],
      ["code/ü/a.py", 999, false],
    ]);
    expect(await (files[1] as Packed).content.text()).toBe("y".repeat(999));
  });

  test.each<[string, string, string]>([
    ["that climbs out", "Leaves", "z.writestr('../up', 'x')"],
    ["with an absolute path", "Leaves", "i = ZipInfo('x'); i.filename = '/etc/passwd'; z.writestr(i, 'x')"],
    ["with a Windows path that climbs out", "Leaves", "i = ZipInfo('x'); i.filename = 'a\\\\..\\\\..\\\\b'; z.writestr(i, 'x')"],
    ["with a link", "Link", "i = ZipInfo('l'); i.external_attr = 0o120777 << 16; z.writestr(i, '/etc')"],
    ["with a line end in a name", "Name", "i = ZipInfo('x'); i.filename = 'a\\nb'; z.writestr(i, 'x')"],
    ["of too many files", "TooMany", "[z.writestr(str(n), '') for n in range(6)]"],
    ["that unpacks to too much", "TooLarge", "z.writestr('bomb', bytes(10**6))"],
    ["packed in another way", "Method", "z.writestr('a', 'x' * 99, zipfile.ZIP_LZMA)"],
  ])("%s is refused", async (_what, word, script) => {
    await expect(unzipped(zip(script), LIMITS)).rejects.toMatchObject({ word });
  });

  test("that lies about a size is refused once it gives more", async () => {
    const bytes = new Uint8Array(await zip("z.writestr('bomb', bytes(10**6))").arrayBuffer());
    const at = bytes.findIndex((_byte, place) => bytes[place] === 0x50 && bytes[place + 2] === 1 && bytes[place + 3] === 2);
    new DataView(bytes.buffer).setUint32(at + 24, 10, true);
    await expect(unzipped(new Blob([bytes]), LIMITS)).rejects.toMatchObject({ word: "NoZip" });
  });

  test.each([["nothing", ""], ["no zip", "PK something else, long enough to hold an end record"]])("%s is none", async (_what, text) => {
    await expect(unzipped(new Blob([text]), LIMITS)).rejects.toMatchObject({ word: "NoZip" });
  });
});
