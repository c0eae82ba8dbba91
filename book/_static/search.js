// What the search page says of a result. Sphinx shows 240 characters of a page's text,
// cut in words and formulas, often out of the table of contents. This shows the first
// paragraph with most of the words, its formulas set, and links to its section.
"use strict";

(() => {
  const LENGTH = 240; // characters, about
  const BEFORE = 80; // of them, before the first word found
  const FORMULA = 16; // a formula counts as so many at most
  // What names the thing that follows it, and what can follow.
  const LEADS = "h1, h2, h3, h4, dt, th, .admonition-title, .claim-head";
  const BODIES = "p:not(th p, .admonition-title, .claim-head), td:not(:has(p))";

  const query = new URLSearchParams(location.search).get("q") ?? "";
  const stemmer = new Stemmer();
  const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const patterns = splitQuery(query.toLowerCase())
    .filter((word) => !stopwords.includes(word))
    .map((word) => [word, stemmer.stemWord(word)].map(literal).join("|"))
    // A Chinese word may stand anywhere in a sentence, a word of letters at its own start.
    .map((either) =>
      /^[\u4e00-\u9fff]/.test(either) ? either : `(?<![\\p{L}\\p{N}])(?:${either})`,
    )
    .map((pattern) => new RegExp(pattern, "iu"));
  const found = (text) => patterns.filter((pattern) => pattern.test(text));

  /* The words and formulas of a block, in order. */
  function pieces(node, kept = []) {
    for (const child of node.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) kept.push(...child.data.split(/(?<=\s)/));
      else if (child.matches?.("span.math")) kept.push(document.importNode(child, true));
      else if (!child.matches?.(".headerlink, .claim-badge ~ a")) pieces(child, kept);
    }
    return kept;
  }
  const plain = (node) => pieces(node).map((piece) => piece.textContent ?? piece).join("").trim();
  const weight = (piece) =>
    typeof piece === "string" ? piece.length : Math.min(piece.textContent.length, FORMULA);

  /* The one-line formula that stands below a block and ends its sentence. */
  function below(block) {
    const shown = block.nextElementSibling;
    if (!shown?.matches("div.math")) return null;
    const tex = shown.lastChild.textContent.trim().replace(/^\\\[|\\\]$/g, "");
    const formula = make("span", `\\(${tex}\\)`);
    formula.className = "math nohighlight";
    return tex.includes("\\begin") ? null : formula;
  }

  /* As many pieces as fit, from the first or around the first with one of the words. */
  function cut(block, words) {
    const all = pieces(block);
    if (/[,:]\s*$/.test(block.textContent)) all.push(" ", below(block) ?? "…");
    const has = (piece) => typeof piece === "string" && words.some((word) => word.test(piece));
    let start = Math.max(all.findIndex(has), 0);
    for (let room = BEFORE; start > 0 && room > 0; start -= 1) room -= weight(all[start - 1]);
    let end = start;
    for (let room = LENGTH; end < all.length && room > 0; end += 1) room -= weight(all[end]);
    return [start ? "… " : "", ...all.slice(start, end), end < all.length ? " …" : ""];
  }

  function make(name, ...children) {
    const element = document.createElement(name);
    element.append(...children);
    return element;
  }

  /* The line of code with most of the words, for what no prose holds. */
  function code(article) {
    const lines = [...article.querySelectorAll("pre")].flatMap((pre) =>
      pre.textContent.split("\n").map((line) => ({ pre, line: line.trim() })),
    );
    if (!lines.length) return null;
    const { pre, line } = lines.reduce((best, other) =>
      found(other.line).length > found(best.line).length ? other : best,
    );
    return { at: pre, content: found(line).length ? [make("code", line.slice(0, LENGTH))] : [] };
  }

  /* The block with most of the words, first those that the page's title lacks. */
  function passage(article, target) {
    const title = article.querySelector("h1")?.textContent ?? "";
    const added = patterns.filter((word) => !word.test(title));
    const words = added.length ? added : patterns;
    const rank = (block) => {
      const held = found(block.textContent);
      return held.length + held.filter((word) => added.includes(word)).length;
    };
    const blocks = [...article.querySelectorAll(`${LEADS}, ${BODIES}`)];
    const block = target
      ? blocks.find((other) => target.contains(other))
      : blocks.reduce((best, other) => (rank(other) > rank(best) ? other : best), blocks[0]);
    if (!block) return null;
    if (!target && !rank(block)) return code(article);
    if (!block.matches(LEADS)) return { at: block, content: cut(block, words) };
    const rest = blocks.slice(blocks.indexOf(block) + 1);
    const body = rest.find((other) => other.matches(BODIES));
    const named = block.matches("h1") || block === target;
    return {
      at: block,
      content: [
        ...(named ? [] : [make("b", ...pieces(block)), " "]),
        ...(body ? cut(body, found(block.textContent).length ? [] : words) : []),
      ],
    };
  }

  function section(node) {
    for (let at = node; (at = at.closest("section[id]")); at = at.parentElement) {
      const heading = at.querySelector(":scope > :is(h2, h3, h4)");
      if (heading) return { id: at.id, title: plain(heading) };
    }
    return null;
  }

  /* MathJax comes with the first formula. */
  let mathjax = null;
  let work = Promise.resolve();
  function typeset(element) {
    mathjax ??= new Promise((ready) => {
      window.MathJax = { options: { enableMenu: false }, startup: { typeset: false } };
      const script = make("script");
      script.src = `${document.documentElement.dataset.content_root}_static/mathjax/tex-chtml.js`;
      script.addEventListener("load", () => ready(MathJax.startup.promise));
      document.head.append(script);
    });
    work = work.then(() => mathjax).then(() => MathJax.typesetPromise([element]));
  }

  Search.makeSearchSummary = (html, _stems, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article.bd-article");
    const target = anchor ? page.getElementById(decodeURIComponent(anchor.slice(1))) : null;
    const result = article && passage(article, target);
    const summary = make("p", ...(result?.content ?? []));
    summary.className = "context";
    // The item that takes the summary names the page and knows its address.
    queueMicrotask(() => {
      const link = summary.parentElement.querySelector("a");
      if (target?.matches("dt")) link.append(` > ${plain(target)}`);
      // A theorem's name is indexed in brackets.
      link.textContent = link.textContent.replace(/>\s*\((.*)\)$/, "> $1");
      const place = result && !target && section(result.at);
      if (place) {
        const to = make("a", place.title);
        to.href = `${link.href}#${place.id}`;
        to.className = "search-place";
        summary.append(to);
      }
      if (summary.querySelector("span.math")) typeset(summary);
    });
    return summary;
  };

  // Sphinx marks the words in whatever page is opened next. They are meant for the page
  // that is opened from a result, and for no other.
  let opened = false;
  addEventListener("click", (event) => {
    opened ||= Boolean(event.target.closest("#search-results a"));
  });
  addEventListener("pagehide", () => {
    if (!opened) localStorage.removeItem("sphinx_highlight_terms");
    opened = false;
  });

  // The chapter named by the words comes first, then one with a section on them, then one
  // whose title, up to its colon, says little else. The weights exceed the 100 of an index
  // entry. Of two chapters that are still equal the one with the lower number comes first,
  // because the later one builds on it.
  const PAGE = 80;
  const SECTION = 40;
  const ALONE = 20;
  const LATER = 0.05;
  const share = (text) => (patterns.length ? found(text).length / patterns.length : 0);
  const bare = (title) => title.replace(/<[^>]*>[^<]*<[^>]*>/g, "").trim();
  const filled = (title) => {
    const words = bare(title).split(":")[0].split(/\s+/);
    return words.filter((word) => found(word).length).length / words.length;
  };
  const number = (title) => parseInt(title.replace(/<[^>]*>/g, ""), 10) || 0;

  /* The titles of the sections of each page, and the terms that it explains. */
  let sections = null;
  function sectionsOf(page) {
    if (!sections) {
      sections = new Map();
      const { alltitles, indexentries } = Search._index;
      const named = [...Object.entries(alltitles), ...Object.entries(indexentries)];
      for (const [title, places] of named)
        for (const [file] of places) {
          const name = Search._index.docnames[file];
          sections.set(name, [...(sections.get(name) ?? []), title]);
        }
    }
    return sections.get(page) ?? [];
  }

  Scorer.score = ([page, title, anchor, object, score]) => {
    if (object) return score; // a claim or a function: its name decides
    const [chapter, section] = title.split(" > ");
    const best = (titles) => Math.max(0, ...titles.map((one) => share(`${chapter} ${one}`)));
    const below = anchor ? share(`${chapter} ${section ?? ""}`) : best(sectionsOf(page));
    const named = PAGE * share(chapter) + SECTION * below + ALONE * filled(chapter);
    if (named) about.add(page);
    return score + named - LATER * number(chapter);
  };

  // A common word stands on most pages. Those whose title, section or term it names come
  // first; of those that only mention it a few are shown, and a button has the others.
  const about = new Set(); // the names of the former
  const FEW = 5;
  const pathOf = (item) => new URL(item.querySelector("a").href).pathname;
  function arrange() {
    const items = [...Search.output.children];
    const terms = items.filter((item) => item.querySelector("a").hash).map(pathOf);
    const isAbout = (item) =>
      item.querySelector("a").hash || [...about].some((name) => pathOf(item).endsWith(`/${name}.html`));
    // The page of a glossary is found by the words of its terms, which stand for it.
    for (const item of items)
      if (!item.querySelector("a").hash && /\/glossary\.html$/.test(pathOf(item)))
        item.hidden = terms.includes(pathOf(item));
    const [named, others] = [[], []];
    for (const item of items) if (!item.hidden) (isAbout(item) ? named : others).push(item);
    if (!named.length || others.length <= FEW) return;
    const list = make("ul", ...others);
    list.className = "search";
    const title = make("h3", "Mentioned on");
    const rest = others.slice(FEW);
    for (const item of rest) item.hidden = true;
    const more = make("button", `Show ${rest.length} more pages`);
    more.type = "button";
    more.dataset.waits = rest.length;
    more.className = "search-more";
    more.addEventListener("click", () => {
      for (const item of rest) item.hidden = false;
      rest[0].querySelector("a").focus();
      more.remove();
    });
    Search.output.after(title, list, more);
  }
  // Sphinx says at the end how many pages it has found, and counts what is in them, too.
  function count() {
    const shown = document.querySelectorAll("#search-results ul.search > li:not([hidden])");
    const waits = document.querySelector(".search-more")?.dataset.waits ?? 0;
    const places = shown.length + Number(waits);
    const what = places === 1 ? "1 place that matches" : `${places} places that match`;
    Search.status.innerText = `Search finished, found ${what} the search query.`;
  }
  addEventListener("DOMContentLoaded", () => {
    const end = new MutationObserver(() => {
      if (!Search.status?.innerText.startsWith("Search finished")) return;
      end.disconnect();
      arrange();
      count();
      // Whoever searched by the keyboard goes on from here, not from the top of the page.
      Search.status.tabIndex = -1;
      if (document.activeElement === document.body) Search.status.focus();
    });
    end.observe(document.querySelector("#search-results"), { childList: true, subtree: true });
  });
})();
