// What a cell needs of CodeMirror. The colours are those of the page: each kind of word
// has the class that Pygments gives it. Tab leaves the editor, as everywhere on a page.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import {
  HighlightStyle,
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null], class: "k" },
  { tag: [tags.definitionKeyword, tags.controlKeyword], class: "k" },
  { tag: tags.moduleKeyword, class: "kn" },
  { tag: tags.operatorKeyword, class: "ow" },
  { tag: tags.operator, class: "o" },
  { tag: tags.string, class: "s1" },
  { tag: tags.number, class: "mi" },
  { tag: tags.comment, class: "c1" },
  { tag: tags.function(tags.definition(tags.variableName)), class: "nf" },
  { tag: tags.definition(tags.className), class: "nc" },
]);

window.softtopkLive.editor = (parent, { doc, label, hint, run, change }) => {
  const keys = [
    { key: "Shift-Enter", run: () => (run(), true) },
    { key: "Mod-Enter", run: () => (run(), true) },
  ];
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc,
      extensions: [
        keymap.of([...keys, ...defaultKeymap, ...historyKeymap]),
        history(),
        python(),
        indentUnit.of("    "),
        indentOnInput(),
        bracketMatching(),
        syntaxHighlighting(colours),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({
          "aria-label": label,
          "aria-description": hint,
          spellcheck: "false",
        }),
        EditorView.updateListener.of((update) => update.docChanged && change()),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    reset: () =>
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: doc } }),
    focus: () => view.focus(),
    remove: () => view.destroy(),
  };
};
