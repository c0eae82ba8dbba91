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

// The link that skips to the text leads to the buttons above it. Its first section is where
// the text begins.
for (const link of all("#pst-skip-link a"))
  for (const { id } of all("article.bd-article > section[id]")) link.hash = id;

// Without this, a notebook that is downloaded opens as text in a tab of its own.
for (const link of all("a.btn-download-source-button")) link.download = "";

// MyST-NB labels a folded cell "Toggle hidden content", which hides its visible text.
for (const summary of all("details.hide > summary[aria-label]")) {
  summary.removeAttribute("aria-label");
}

// The button of a solution is named alike for each. It is made when the page has been read.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of all(".admonition-title > .toggle-button"))
    button.setAttribute("aria-label", button.parentElement.textContent.trim());
});

// The button for light and dark loses the focus when it is pressed, and its name does not
// say what is chosen.
for (const button of all(".theme-switch-button")) {
  const named = () => {
    const { mode } = document.documentElement.dataset;
    button.setAttribute("aria-label", `Colour mode: ${mode || "auto"}`);
  };
  addEventListener("load", named);
  button.addEventListener("click", (event) => {
    setTimeout(() => {
      named();
      if (event.detail === 0) button.focus(); // pressed by a key
    });
  });
}

// The list of pages stands before the text of every page. It is one stop of the Tab key,
// at the current page; the arrow keys move in it, as in a menu.
const contents = document.querySelector("nav.bd-docs-nav");
if (contents) {
  contents.setAttribute("aria-label", "Contents: move with the arrow keys");
  const keys = document.createElement("p"); // shown to whoever is here by the keyboard
  keys.className = "contents-keys";
  keys.textContent = "↑ ↓ move, Enter opens a page or a Part";
  keys.setAttribute("aria-hidden", "true"); // the name says it
  contents.prepend(keys);
  const items = () =>
    [...contents.querySelectorAll("a, summary")].filter((item) => item.checkVisibility());
  const entries = contents.querySelectorAll("a, summary");
  for (const item of entries) item.tabIndex = -1;
  (contents.querySelector("li.current.active > a") ?? entries[0]).tabIndex = 0;
  contents.addEventListener("keydown", (event) => {
    const list = items();
    const at = list.indexOf(document.activeElement);
    const to = {
      ArrowDown: list[at + 1],
      ArrowUp: list[at - 1],
      Home: list[0],
      End: list.at(-1),
    }[event.key];
    if (at < 0 || !to) return;
    event.preventDefault();
    for (const item of entries) item.tabIndex = item === to ? 0 : -1;
    to.focus();
  });
}

// A dialog, such as the contents on a narrow screen or the search, gives the focus back
// when Escape closes it. Opened by the mouse there may be nothing to give it back to, and
// the reader would begin again at the top of the page: the button that opened it takes it.
let pressed = null;
const outside = (target) => !target.closest("dialog") && target.closest("button, label");
document.addEventListener("click", ({ target }) => (pressed = outside(target) || pressed), true);
// The theme takes the focus from the buttons of its two columns when one is pressed.
document.addEventListener(
  "click",
  ({ target, detail }) => {
    const button = detail === 0 && target.closest(".primary-toggle, .secondary-toggle");
    if (!button) return; // not by a key
    setTimeout(() => document.activeElement === document.body && button.focus());
  },
  true,
);
for (const dialog of all("dialog"))
  dialog.addEventListener("close", () =>
    setTimeout(() => {
      if (document.activeElement === document.body) pressed?.focus();
    }),
  );

// Sphinx marks the words of a search wherever their letters stand, also the k of "taking".
// A mark stays where a word begins, and one of a letter or two where it is the word, and
// in the text alone: the contents and the buttons around it hold no answer.
const LETTER = /[\p{Script=Latin}\p{Script=Greek}\p{N}]/u;
function beside(mark, way, place) {
  let node = mark[way];
  while (node && !node.textContent) node = node[way];
  return LETTER.test(node?.textContent.at(place) ?? "");
}
function unmark() {
  for (const mark of all("span.highlighted")) {
    const words = mark.textContent;
    const short = words.length < 3 && beside(mark, "nextSibling", 0);
    const part = LETTER.test(words[0]) && (short || beside(mark, "previousSibling", -1));
    if (!part && mark.closest("article, #search-results")) continue;
    const parent = mark.parentElement;
    mark.replaceWith(words);
    parent.normalize();
  }
}
function marksCome() {
  if (document.querySelector("#search-results") || /[?&]highlight=/.test(location.search))
    return true;
  try {
    return Boolean(localStorage.getItem("sphinx_highlight_terms"));
  } catch {
    return false;
  }
}
if (marksCome())
  new MutationObserver((changes) => {
    const holds = (node) => node.matches?.(".highlighted, :has(.highlighted)");
    if (changes.some(({ addedNodes }) => [...addedNodes].some(holds))) unmark();
  }).observe(document.querySelector("article, main") ?? document.body, {
    childList: true,
    subtree: true,
  });

// A box that scrolls sideways must be reachable by keyboard. Whether it scrolls depends
// on its width, which changes with the window, the formulas and folded blocks.
const BOXES =
  "mjx-container[display], .math, pre, .pst-scrollable-table-container";
//
// A table that is a little too wide is set closer first, or with its first column broken,
// if that makes it fit, on a phone then in smaller type. If nothing does, or a row would be
// half a screen high, a table of sentences becomes a stack of cards. What scrolls keeps the
// first column in sight. And what lacks only a few pixels does not fade (see book.css): the
// fade would hide more than they do.
const FADE = 12; // pixels out of sight, from which on a box says that there is more
const hidden = (box) => box.scrollWidth - box.clientWidth;
const FITS = [[], ["close"], ["head-stays"], ["close", "head-stays"]];
const SMALL = [["small", "close"], ["small", "close", "head-stays"]];
const phone = matchMedia("(max-width: 576px)");
const SENTENCE = 50; // letters; shorter cells are to be compared with each other
function fit(box) {
  const set = (wanted) => {
    for (const name of ["close", "head-stays", "small", "cards"])
      box.classList.toggle(name, wanted.includes(name));
    return hidden(box) <= 1;
  };
  if (FITS.some(set) && !(phone.matches && towers(box) && named(box))) return;
  if (!phone.matches) return set(["head-stays"]);
  if ((towers(box) || !SMALL.some(set)) && named(box)) set(["cards"]);
}
const TALL = 400; // pixels, half a screen
const towers = (box) =>
  [...box.querySelectorAll("tbody tr")].some((row) => row.offsetHeight > TALL);

// Whether the cells of a table are sentences whose heads can be said before them. A head
// with a formula cannot.
function named(box) {
  const heads = [...box.querySelectorAll("thead th")];
  const rows = [...box.querySelectorAll("tbody tr")];
  const words = (cell) => cell.textContent.trim();
  if (heads.some((head) => !words(head) || head.querySelector(".math"))) return false;
  const whole = (row) => row.cells.length === heads.length;
  const long = (row) => [...row.cells].some((cell) => words(cell).length > SENTENCE);
  if (!rows.length || !rows.every(whole) || !rows.some(long)) return false;
  for (const row of rows)
    for (const [place, cell] of [...row.cells].entries())
      cell.dataset.head = words(heads[place]);
  return true;
}
const watch = new ResizeObserver((entries) => {
  for (const { target: box } of entries) {
    if (box.matches(".pst-scrollable-table-container")) fit(box);
    const more = getComputedStyle(box).overflowX === "visible" ? 0 : hidden(box);
    box.classList.toggle("fades", more > FADE);
    if (more > 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});
function watchAll() {
  for (const box of all(`.bd-article :is(${BOXES})`)) {
    watch.unobserve(box); // else Chromium says nothing of a box whose own size is the same
    watch.observe(box);
  }
  for (const line of all(".fold > summary")) {
    foldLines.unobserve(line);
    foldLines.observe(line);
  }
}
// The line of a fold that is cut says so (see book.css).
const foldLines = new ResizeObserver((entries) => {
  for (const { target: line } of entries) {
    const words = [line, ...line.querySelectorAll(".fold-words")];
    const cut = words.some((part) => part.scrollHeight > part.clientHeight + 6);
    const shut = !line.parentElement.open;
    line.classList.toggle("cut", shut && (cut || hidden(line) > 1));
  }
});
addEventListener("live-output", watchAll); // a cell has run in the page
addEventListener("load", () => {
  // The links that name a heading's address, and the buttons that copy code, would be a
  // third of a chapter's stops. Where there are few blocks of code, as on a page that is
  // there to copy from, the buttons stay.
  const copies = all(".bd-article button.copybtn");
  const extra = all(".bd-article a.headerlink");
  if (copies.length > 16) extra.push(...copies);
  for (const stop of extra) stop.tabIndex = -1;
  watchAll();
  window.MathJax?.startup?.promise?.then(watchAll);
  // A font that arrives late changes how wide a text is, but not the size of its box.
  document.fonts.addEventListener("loadingdone", watchAll);
});
