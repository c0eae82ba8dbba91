// Repairs of the theme's HTML that neither a style sheet nor a template reaches.
// Each block names the fault; the page works without this script.
"use strict";

const all = (selector) => [...document.querySelectorAll(selector)];

// pydata-sphinx-theme puts the book's title outside every landmark.
for (const logo of all(".sidebar-primary-item:has(> .navbar-brand)")) {
  logo.setAttribute("role", "navigation");
  logo.setAttribute("aria-label", "Title");
}

// docutils gives bibliography entries a role that ARIA has withdrawn, inside a list
// that then holds no list item.
for (const entry of all("[role=doc-biblioentry], .citation-list[role=list]")) {
  entry.removeAttribute("role");
}

// MyST-NB labels a folded cell "Toggle hidden content", which hides its visible text.
for (const summary of all("details.hide > summary[aria-label]")) {
  summary.removeAttribute("aria-label");
}

// A box that scrolls sideways must be reachable by keyboard. Whether it scrolls depends
// on its width, which changes with the window, the formulas and folded blocks.
const BOXES =
  "mjx-container[display], .math, pre, .pst-scrollable-table-container";
const watch = new ResizeObserver((entries) => {
  for (const { target: box } of entries) {
    const scrolls =
      box.scrollWidth > box.clientWidth + 1 &&
      getComputedStyle(box).overflowX !== "visible";
    if (scrolls) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});
function watchAll() {
  for (const box of all(`.bd-article :is(${BOXES})`)) watch.observe(box);
}
addEventListener("live-output", watchAll); // a cell has run in the page
addEventListener("load", () => {
  watchAll();
  window.MathJax?.startup?.promise?.then(watchAll);
});
