/** The YAML editor itself: CodeMirror with our keys and looks. */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

import type { Problem } from "./check.ts";
import { masked } from "./masked.ts";

export class CodeEditor {
  readonly view: EditorView;

  constructor(parent: HTMLElement, text: string, label: string, changed: (text: string) => void) {
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          foldGutter(),
          lintGutter(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          indentUnit.of("  "),
          yaml(),
          masked,
          syntaxHighlighting(classHighlighter),
          keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed(update.state.doc.toString());
          }),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Puts in another text by its smallest change, so that cursor and undo stay sensible. */
  set text(next: string) {
    const before = this.text;
    if (next === before) return;
    const shorter = Math.min(before.length, next.length);
    let from = 0;
    while (from < shorter && before[from] === next[from]) from += 1;
    let back = 0;
    while (back < shorter - from && before.at(-1 - back) === next.at(-1 - back)) back += 1;
    this.view.dispatch({ changes: { from, to: before.length - back, insert: next.slice(from, next.length - back) } });
  }

  show(problems: readonly Problem[]): void {
    const { doc } = this.view.state;
    const diagnostics = problems.map((problem): Diagnostic => {
      const line = doc.line(Math.min(Math.max(problem.line ?? 1, 1), doc.lines));
      const indent = line.text.length - line.text.trimStart().length;
      return { from: line.from + indent, to: line.to, severity: "error", message: problem.message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  goTo(line: number): void {
    const { doc } = this.view.state;
    const place = doc.line(Math.min(Math.max(line, 1), doc.lines));
    this.view.dispatch({ selection: { anchor: place.from }, effects: EditorView.scrollIntoView(place.from, { y: "center" }) });
    this.view.focus();
  }
}
