// Folds: the switch that opens all, remembered over the pages, and links that lead into
// one. Runs in the head, before the page is shown, so that nothing moves afterwards.
"use strict";

(() => {
  const KEY = "softtopk-folds";
  const root = document.documentElement;
  root.classList.add("folds"); // shows the switch, which needs this script

  // A browser may forbid a page to remember anything.
  function recall() {
    try {
      return localStorage.getItem(KEY) === "open";
    } catch {
      return false;
    }
  }
  function remember(open) {
    try {
      if (open) localStorage.setItem(KEY, "open");
      else localStorage.removeItem(KEY);
    } catch {
      // The switch then holds for this page.
    }
  }

  const folds = () => document.querySelectorAll("details.fold");
  const box = () => document.querySelector(".fold-switch input");

  function openAll(open) {
    const control = box();
    if (control) control.checked = open;
    for (const fold of folds()) fold.open = open;
  }

  // Open what holds the target, and go there: its place has changed.
  function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    let shut = 0;
    for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) {
      shut += !at.open;
      at.open = true;
    }
    if (shut) target.scrollIntoView();
  }

  // While the page arrives: each fold is opened as it comes.
  const arriving = recall() ? new MutationObserver(() => openAll(true)) : null;
  arriving?.observe(root, { childList: true, subtree: true });

  document.addEventListener("DOMContentLoaded", () => {
    arriving?.disconnect();
    if (recall()) openAll(true);
    box()?.addEventListener("change", (event) => {
      remember(event.target.checked);
      openAll(event.target.checked);
    });
    reveal();
  });
  addEventListener("hashchange", reveal);
  // A click on a link to where one already is changes no address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href*='#']");
    if (link && link.href === location.href) reveal();
  });
  // Another page of the book, in another tab, or this one taken out of the store.
  addEventListener("pageshow", (event) => event.persisted && openAll(recall()));
})();
