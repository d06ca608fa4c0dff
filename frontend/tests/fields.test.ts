import { describe, expect, test } from "vitest";
import { parse } from "yaml";

import { readJob, writeField } from "../src/job_file/fields.ts";
import { addRole, removeRole, renameRole } from "../src/job_file/roles.ts";
import { readTable, writeTable } from "../src/job_file/tables.ts";

const FILE = `\
# my first job
protocolVersion: 2
name: hello   # what it is called
type: job
prerequisites:
  - {protocolVersion: 2, name: other, type: data, uri: [x]}
  - name: busy
    type: dockerimage
    uri: "busybox:latest"
parameters:
  epochs: 10   # enough
  layers: [1, 2]
taskRoles:
  worker:
    instances: 2
    dockerImage: busy
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 1}
    commands:
      - echo one
      - |
        for i in 1 2; do
          echo $i
        done
defaults:
  virtualCluster: research
`;

const firstRole = (text: string): Record<string, string> => readJob(text)?.roles[0]?.values ?? {};

test("every field is read from where the file has it", () => {
  expect(readJob(FILE)).toEqual({
    values: { name: "hello", vc: "research" },
    roles: [
      {
        name: "worker",
        values: {
          image: "busybox:latest",
          instances: "2",
          gpu: "1",
          cpu: "1",
          memoryMB: "256",
          commands: "echo one\nfor i in 1 2; do\n  echo $i\ndone",
        },
      },
    ],
  });
});

describe("a changed field changes nothing else in the text", () => {
  test.each<[string, string, string, string, string]>([
    ["name", "", "other-name", "name: hello ", "name: other-name "],
    ["instances", "worker", "16", "instances: 2", "instances: 16"],
    ["gpu", "worker", "8", "gpu: 1", "gpu: 8"],
    ["image", "worker", "pytorch/pytorch:2.9", '"busybox:latest"', "pytorch/pytorch:2.9"],
    ["vc", "", "vision", "virtualCluster: research", "virtualCluster: vision"],
  ])("%s", (field, role, value, before, after) => {
    expect(writeField(FILE, field, value, role)).toBe(FILE.replace(before, after));
  });
});

describe("what is written reads back", () => {
  const job: [string, string][] = [
    ["name", "true"],
    ["name", "a: b # c"],
    ["name", ""],
    ["timeLimit", "2h"],
    ["timeLimit", "3600"],
    ["retries", "-1"],
    ["gang", "false"],
    ["priority", "prod"],
    ["tags", "paper, figure 2"],
    ["after", "prepare"],
    ["code", `sha256:${"0".repeat(64)}`],
  ];
  test.each(job)("%s: %s", (field, value) => {
    for (const file of [FILE, "", "name: x\n", "extras:\n", "extras: {berth: }\n"]) {
      const text = writeField(file, field, value);
      expect(readJob(text)?.values[field] ?? "").toBe(value);
      expect(() => parse(text)).not.toThrow();
    }
  });

  const role: [string, string][] = [
    ["gpu", "many"],
    ["cpu", "4"],
    ["image", "registry.example:5000/team/image@sha256:00"],
    ["commands", "one\ntwo"],
    ["commands", "if true; then\n  echo yes\nfi"],
    ["sku", "A100"],
    ["shmMB", "512"],
    ["minSucceeded", "1"],
  ];
  test.each(role)("%s: %s", (field, value) => {
    for (const file of [FILE, "taskRoles:\n  worker:\n    instances: 1\n", "taskRoles: {worker: {}}\n", "taskRoles: {worker: }\n"]) {
      const text = writeField(file, field, value, "worker");
      expect(firstRole(text)[field] ?? "").toBe(value);
    }
  });
});

test("an emptied field that need not be there is gone with the sections around it", () => {
  const limited = writeField(FILE, "timeLimit", "2h");
  expect(parse(limited).extras).toEqual({ berth: { timeLimit: "2h" } });
  expect(parse(writeField(limited, "timeLimit", ""))).toEqual(parse(FILE));
});

test("the plug-in for SSH comes and goes, and the others stay", () => {
  const other = `${FILE}extras:\n  com.microsoft.pai.runtimeplugin:\n    - plugin: cmd   # mine\n`;
  for (const file of [FILE, other]) {
    const text = writeField(file, "ssh", "true");
    expect(readJob(text)?.values["ssh"]).toBe("true");
    expect(parse(text).extras["com.microsoft.pai.runtimeplugin"].at(-1)).toEqual({ plugin: "ssh", parameters: { jobssh: true } });
    expect(writeField(text, "ssh", "true")).toBe(text);
    expect(parse(writeField(text, "ssh", ""))).toEqual(parse(file));
  }
  expect(writeField(other, "ssh", "true")).toContain("# mine");
});

test("what is usual is not written down", () => {
  expect(parse(writeField(writeField(FILE, "gang", "false"), "gang", "true"))).toEqual(parse(FILE));
});

test("numbers are written as numbers", () => {
  expect(parse(writeField(FILE, "gpu", "4", "worker")).taskRoles.worker.resourcePerInstance.gpu).toBe(4);
});

test("simple commands become one item each", () => {
  expect(parse(writeField(FILE, "commands", "a\nb", "worker")).taskRoles.worker.commands).toEqual(["a", "b"]);
});

test("a file that is no YAML is left alone", () => {
  expect(readJob("a: [1")).toBeUndefined();
  expect(writeField("a: [1", "name", "x")).toBe("a: [1");
  expect(addRole("a: [1")).toBe("a: [1");
});

describe("task roles", () => {
  const two = addRole(FILE);

  test("a new one is like the last, without its commands", () => {
    expect(readJob(two)?.roles.map((role) => role.name)).toEqual(["worker", "role2"]);
    expect(readJob(two)?.roles[1]?.values).toMatchObject({ image: "busybox:latest", gpu: "1", instances: "1", commands: "" });
    expect(readJob(addRole(""))?.roles[0]?.name).toBe("worker");
  });

  test("another image for one leaves the other's", () => {
    const text = writeField(writeField(two, "image", "p", "role2"), "image", "python:3", "role2");
    expect(readJob(text)?.roles.map((role) => role.values["image"])).toEqual(["busybox:latest", "python:3"]);
    expect(readJob(removeRole(text, "role2"))?.roles).toEqual(readJob(FILE)?.roles);
    expect(parse(removeRole(text, "role2")).prerequisites).toHaveLength(2);
  });

  test("a renamed one is renamed wherever the file names it, and keeps its place", () => {
    const placed = writeField(writeField(two, "sku", "A100", "worker"), "most", "8", "worker");
    const renamed = renameRole(placed, "worker", "master");
    expect(readJob(renamed)?.roles.map((role) => role.name)).toEqual(["master", "role2"]);
    expect(parse(renamed).extras.hivedScheduler.taskRoles).toEqual({ master: { skuType: "A100" } });
    expect(parse(renamed).extras.berth.elastic).toEqual({ master: { max: 8 } });
    expect(writeField(placed, "most", "", "worker")).not.toContain("elastic");
    expect(renamed).toContain("# my first job");
  });

  test.each(["", "2nd", "role2", "a b", "a-b"])("it cannot be called %j", (name) => {
    expect(renameRole(two, "worker", name)).toBe(two);
  });
});

describe("tables", () => {
  test("a row that is changed leaves the others as they were typed", () => {
    const rows = readTable(FILE, "parameters");
    expect(rows).toEqual([
      { name: "epochs", value: "10" },
      { name: "layers", value: "[1,2]", whole: true },
    ]);
    const text = writeTable(FILE, "parameters", [...rows, { name: "lr", value: "0.1" }, { name: "word", value: "1.0" }]);
    expect(text).toContain("epochs: 10 # enough");
    expect(parse(text).parameters).toEqual({ epochs: 10, layers: [1, 2], lr: 0.1, word: "1.0" });
    expect(parse(writeTable(text, "parameters", [])).parameters).toBeUndefined();
  });

  test("secrets are texts", () => {
    expect(parse(writeTable(FILE, "secrets", [{ name: "pin", value: "0042" }])).secrets).toEqual({ pin: "0042" });
    expect(parse(writeTable(FILE, "secrets", [{ name: "pin", value: "42" }])).secrets).toEqual({ pin: "42" });
  });

  test("ports and storages", () => {
    const ports = writeTable(FILE, "ports", [{ name: "http", value: "1" }], "worker");
    expect(parse(ports).taskRoles.worker.resourcePerInstance.ports).toEqual({ http: 1 });
    expect(parse(writeTable(ports, "ports", [{ name: "web", value: "2" }], "worker")).taskRoles.worker.resourcePerInstance.ports).toEqual({ web: 2 });
    const mounts = [{ name: "data", value: "" }, { name: "home", value: "/home/me" }];
    const text = writeTable(FILE, "storages", mounts);
    expect(parse(text).extras.storages).toEqual([{ name: "data" }, { name: "home", mountPath: "/home/me" }]);
    expect(readTable(text, "storages")).toEqual(mounts);
  });

  test("variables stand before the commands, whatever their values are", () => {
    const rows = [
      { name: "LR", value: "0.1" },
      { name: "WORDS", value: "it's <% $secrets.x %> $HOME" },
    ];
    const text = writeTable(FILE, "environment", rows, "worker");
    expect(readTable(text, "environment", "worker")).toEqual(rows);
    expect(firstRole(text)["commands"]).toBe(firstRole(FILE)["commands"]);
    const other = writeField(text, "commands", "python train.py", "worker");
    expect(parse(other).taskRoles.worker.commands).toEqual([
      "export LR=0.1",
      "export WORDS='it'\\''s <% $secrets.x %> $HOME'",
      "python train.py",
    ]);
    expect(parse(writeTable(text, "environment", [], "worker")).taskRoles).toEqual(parse(FILE).taskRoles);
  });
});
