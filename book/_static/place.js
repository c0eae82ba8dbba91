// The place of the reader, while formulas are set and change the height of the page: that
// to which a link leads, or that at which the reader left the page for another one, with
// the folds that were open. The entry of the history holds it.
"use strict";

(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const folds = () => all("article details, article .admonition.toggle");
  const isOpen = (fold) => fold.open ?? !fold.matches(".toggle-hidden");
  const unfold = (fold) =>
    fold.localName === "details"
      ? (fold.open = true)
      : isOpen(fold) || fold.querySelector(".toggle-button")?.click();
  const BAR = 80; // pixels at the top of the window, which the bar takes

  // What a place is told by: a block of the text, without what a run in the page adds.
  const PARTS = "section > *, li, tr:not(.claim-group)";
  const parts = () =>
    all(`article :is(${PARTS})`).filter((part) => !part.closest(".live-cell, .live-output"));

  addEventListener("pagehide", () => {
    let found = null;
    for (const [number, part] of parts().entries()) {
      const { top, height } = part.getBoundingClientRect();
      if (height && top <= BAR) found = { number, top };
    }
    const open = [...folds().entries()].filter(([, fold]) => isOpen(fold));
    const place = { ...found, open: open.map(([number]) => number) };
    history.replaceState({ ...history.state, place }, "");
  });

  const [arrival] = performance.getEntriesByType("navigation");
  const again = ["back_forward", "reload"].includes(arrival?.type);
  const left = again ? history.state?.place : null;
  const target = left
    ? parts()[left.number]
    : document.getElementById(decodeURIComponent(location.hash.slice(1)));
  document.addEventListener("DOMContentLoaded", () => {
    const found = folds();
    for (const number of left?.open ?? []) if (found[number]) unfold(found[number]);
  });
  if (!target) return;

  const behavior = "instant";
  let done = false;
  function go() {
    if (done || !target.checkVisibility()) return;
    if (!left) return target.scrollIntoView({ behavior });
    const top = target.getBoundingClientRect().top - left.top;
    if (Math.abs(top) >= 1) scrollBy({ top, behavior });
  }

  // As long as formulas are set, unless the reader goes elsewhere.
  const watch = new ResizeObserver(go);
  const stop = () => {
    done = true;
    watch.disconnect();
    for (const name of MOVES) removeEventListener(name, stop, true);
  };
  const MOVES = ["wheel", "touchstart", "pointerdown", "keydown", "hashchange"];
  for (const name of MOVES) addEventListener(name, stop, { capture: true, passive: true });
  watch.observe(document.querySelector("article"));
  addEventListener("load", async () => {
    await window.MathJax?.startup?.promise?.catch(() => {});
    await document.fonts.ready;
    await new Promise((later) => setTimeout(later, 300)); // a11y.js fits the tables
    go();
    stop();
  });
})();
