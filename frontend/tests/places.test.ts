import { describe, expect, test } from "vitest";

import { readEnvironment } from "../src/job_file/environment.ts";
import { unusedOf } from "../src/job_file/hardware.ts";
import { secretPlaces } from "../src/job_file/masked.ts";
import { placed } from "../src/job_file/places.ts";

const FILE = `\
name: x
prerequisites:
  - {name: image, type: dockerimage, uri: busybox}
taskRoles:
  master: {dockerImage: image}
  worker: {dockerImage: other}
`;

describe("a problem stands beside the field that is nearest above it", () => {
  test.each<[string, string, number | undefined]>([
    ["name", "name", undefined],
    ["defaults.virtualCluster", "vc", undefined],
    ["taskRoles", "roles", undefined],
    ["taskRoles.worker", "role", 1],
    ["taskRoles.worker.colour", "role", 1],
    ["taskRoles.master.resourcePerInstance.gpu", "gpu", 0],
    ["taskRoles.worker.resourcePerInstance.ports.http", "ports", 1],
    ["taskRoles.worker.commands[0]", "commands", 1],
    ["taskRoles.worker.dockerImage", "image", 1],
    ["prerequisites[0].uri", "image", 0],
    ["extras.hivedScheduler.jobPriorityClass", "priority", undefined],
    ["extras.hivedScheduler.taskRoles.worker.skuType", "sku", 1],
    ["extras.storages[0].name", "storages", undefined],
    ["extras.berth.timeLimit", "timeLimit", undefined],
    ["secrets.token", "secrets", undefined],
  ])("%s: %s", (path, field, role) => {
    const problem = { path, message: "no", line: null };
    expect(placed(FILE, [problem])).toEqual([[role === undefined ? { field } : { field, role }, [problem]]]);
  });

  test("what belongs to no field is left to the list", () => {
    expect(placed(FILE, [{ path: "", message: "no", line: null }])).toEqual([]);
    expect(placed(FILE, [{ path: "names", message: "no", line: null }])).toEqual([]);
  });
});

describe("secrets are found where they stand", () => {
  test.each<[string, string[]]>([
    ["name: x\nsecrets:\n  key: abc\n  deep:\n    password: 'a b'\nother: y", ["abc", "'a b'"]],
    ["secrets: {key: abc}\nname: x", [" {key: abc}"]],
    ["secrets:\n  key: |\n    line one\n\n    two", ["|", "line one", "two"]],
    ["    password: plain # note", ["plain # note"]],
    ["auth: {username: me, password: plain}", ["plain}"]],
    ["    password: <% $secrets.x %>", []],
    ["'secrets':\n  # note\n  a: 1", ["# note", "1"]],
  ])("%j", (text, wanted) => {
    const lines = text.split("\n");
    expect(secretPlaces(lines).map(([line, from, to]) => lines[line]?.slice(from, to))).toEqual(wanted);
  });
});

test("a value that the shell works out is no variable of the form", () => {
  const kept = ["export A=$HOME", 'export B="$(date)"', "export C=`id`", "export D=a b", "export E=1; rm x", "export F='a'b"];
  for (const item of kept) expect(readEnvironment([item]).variables).toEqual([]);
  expect(readEnvironment(['export A="b c"', "export B=", "echo"]).variables).toEqual([["A", "b c"], ["B", ""]]);
});

test("what is unused is read by SKU", () => {
  expect([...unusedOf("A100:4 x:y:0 ")]).toEqual([["A100", "4"], ["x:y", "0"]]);
});
