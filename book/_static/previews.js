// Shows what a link points at: an equation, theorem, term, exercise, figure, reference
// or claim. Opens on hover and on focus, closes with Escape, stays while the pointer is
// on it. A target on another page is read from that page (not from file://, where
// browsers forbid it; there the link still works).
"use strict";

(() => {
  const DELAY = 250; // ms: a pointer that only crosses a link opens nothing
  const pages = new Map(); // address -> promise of the parsed page
  let box = null;
  let link = null;
  let timer = 0;

  function page(address) {
    if (address === location.origin + location.pathname) return document;
    if (location.protocol === "file:") return null;
    if (!pages.has(address))
      pages.set(
        address,
        fetch(address)
          .then((reply) => reply.text())
          .then((text) => new DOMParser().parseFromString(text, "text/html")),
      );
    return pages.get(address);
  }

  // The nodes that say what stands at a target; empty for a section or a code cell.
  function content(target) {
    if (!target) return [];
    if (target.matches("tr"))
      return [...target.querySelectorAll("th > p, td:nth-child(2) > p")];
    if (target.matches("dt")) return [target, target.nextElementSibling];
    const shown = "div.math, div.proof, div.exercise, figure, .citation, aside.footnote";
    if (target.matches(shown)) return [target];
    // An empty anchor stands before what it names.
    if (target.matches("span:empty, div.target")) {
      const next = target.nextElementSibling ?? target.parentElement.nextElementSibling;
      return next?.matches(shown) ? [next] : [];
    }
    return [];
  }

  function close() {
    clearTimeout(timer);
    box?.remove();
    if (link?.dataset.title) link.title = link.dataset.title;
    link?.removeAttribute("aria-describedby");
    box = link = null;
  }

  async function open(anchor) {
    const address = new URL(anchor.href);
    const holder = await page(address.origin + address.pathname);
    const id = decodeURIComponent(address.hash.slice(1));
    const nodes = content(holder?.getElementById(id));
    if (!nodes.length || anchor !== link) return;

    box = document.createElement("div");
    box.className = "preview";
    box.id = "preview";
    box.setAttribute("role", "tooltip");
    for (const node of nodes) {
      const copy = document.importNode(node, true);
      copy.hidden = false;
      // A drawing needs the names of its parts.
      for (const part of [copy, ...copy.querySelectorAll("[id]:not(svg *)")])
        part.removeAttribute("id");
      box.append(copy, " ");
    }
    for (const part of box.querySelectorAll("[tabindex]")) part.removeAttribute("tabindex");
    for (const part of box.querySelectorAll("button")) part.remove(); // a copy does nothing
    box.addEventListener("scroll", mark);
    box.addEventListener("pointerleave", leave);
    box.addEventListener("pointerenter", () => clearTimeout(timer));
    document.body.append(box);
    anchor.setAttribute("aria-describedby", box.id);
    if (anchor.title) {
      anchor.dataset.title = anchor.title; // the browser's own tooltip would cover this one
      anchor.removeAttribute("title");
    }
    place(anchor);
    if (window.MathJax?.typesetPromise) {
      await MathJax.typesetPromise([box]);
      if (anchor === link) place(anchor);
    }
  }

  // What is longer than its box says so, until its end is in sight (see book.css).
  function mark() {
    box?.classList.toggle("cut", box.scrollHeight - box.scrollTop > box.clientHeight + 2);
  }

  // Below the link, or above it where the window ends; never over its edges.
  function place(anchor) {
    const at = anchor.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.offsetWidth - 12;
    const below = at.bottom + 6 + box.offsetHeight < innerHeight;
    const top = below ? at.bottom + 6 : Math.max(6, at.top - 6 - box.offsetHeight);
    box.style.left = `${Math.max(6, Math.min(at.left, room)) + scrollX}px`;
    box.style.top = `${top + scrollY}px`;
    mark();
  }

  function enter(event) {
    const anchor = event.currentTarget;
    if (anchor === link) return clearTimeout(timer);
    close();
    link = anchor;
    timer = setTimeout(() => open(anchor).catch(close), event.type === "focus" ? 0 : DELAY);
  }
  function leave() {
    clearTimeout(timer);
    timer = setTimeout(close, DELAY);
  }

  const links = ".bd-article a.reference.internal[href*='#']";
  for (const anchor of document.querySelectorAll(links)) {
    if (anchor.closest("nav, .contents, table.claim-ledger th")) continue;
    anchor.addEventListener("pointerenter", (e) => e.pointerType !== "touch" && enter(e));
    anchor.addEventListener("pointerleave", leave);
    anchor.addEventListener("focus", (e) => anchor.matches(":focus-visible") && enter(e));
    anchor.addEventListener("blur", close);
  }
  addEventListener("keydown", (event) => event.key === "Escape" && close());
})();
