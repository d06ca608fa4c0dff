import { describe, expect, test } from "vitest";
import { parse } from "yaml";

import { otherRoles, readFields, writeField, type Field } from "../src/editor/fields.ts";

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

test("every field is read from where the file has it", () => {
  expect(readFields(FILE)).toEqual({
    name: "hello",
    vc: "research",
    image: "busybox:latest",
    instances: "2",
    gpu: "1",
    cpu: "1",
    memoryMB: "256",
    commands: "echo one\nfor i in 1 2; do\n  echo $i\ndone",
  });
});

describe("a changed field changes nothing else in the text", () => {
  test.each<[Field, string, string, string]>([
    ["name", "other-name", "name: hello ", "name: other-name "],
    ["instances", "16", "instances: 2", "instances: 16"],
    ["gpu", "8", "gpu: 1", "gpu: 8"],
    ["image", "pytorch/pytorch:2.9", '"busybox:latest"', "pytorch/pytorch:2.9"],
    ["vc", "vision", "virtualCluster: research", "virtualCluster: vision"],
  ])("%s", (field, value, before, after) => {
    expect(writeField(FILE, field, value)).toBe(FILE.replace(before, after));
  });
});

describe("what is written reads back", () => {
  test.each<[Field, string]>([
    ["name", "true"],
    ["name", "a: b # c"],
    ["name", ""],
    ["gpu", "many"],
    ["cpu", "4"],
    ["image", "registry.example:5000/team/image@sha256:00"],
    ["commands", "one\ntwo"],
    ["commands", "if true; then\n  echo yes\nfi"],
  ])("%s: %s", (field, value) => {
    for (const file of [FILE, "", "name: x\n", "taskRoles:\n  a:\n    instances: 1\n"]) {
      const text = writeField(file, field, value);
      expect(readFields(text)?.[field] ?? "").toBe(value);
      expect(() => parse(text)).not.toThrow();
    }
  });
});

test("numbers are written as numbers", () => {
  expect(parse(writeField(FILE, "gpu", "4")).taskRoles.worker.resourcePerInstance.gpu).toBe(4);
});

test("simple commands become one item each", () => {
  expect(parse(writeField(FILE, "commands", "a\nb")).taskRoles.worker.commands).toEqual(["a", "b"]);
});

test("a file that is no YAML is left alone", () => {
  expect(readFields("a: [1")).toBeUndefined();
  expect(writeField("a: [1", "name", "x")).toBe("a: [1");
});

test("task roles that the form does not show are counted", () => {
  expect(otherRoles("taskRoles: {a: {}, b: {}, c: {}}")).toBe(2);
  expect(otherRoles("")).toBe(0);
});
