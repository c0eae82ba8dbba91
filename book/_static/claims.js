// Filters the tables of claims by source, section, verdict, state, proof and words. The
// filter stands in the address, so a view can be shared; without this script all rows are
// shown.
"use strict";

(() => {
  const tables = [...document.querySelectorAll("table.claim-ledger")];
  if (!tables.length) return;

  // The words are taken before MathJax replaces the formulas.
  const rows = tables
    .flatMap((table) => [...table.querySelectorAll("tbody > tr")])
    .map((element) => ({
      element,
      words: element.textContent.replace(/\\[()]/g, "").toLowerCase(),
      source: element.dataset.source,
      section: element.dataset.section,
      verdict: element.dataset.verdict,
      state: element.dataset.state,
      proof: element.dataset.proof,
      typeset: false,
    }));
  const sourceTitles = new Map(
    rows.map(({ element, source }) => [source, element.dataset.sourceTitle]),
  );

  const form = document.createElement("form");
  form.className = "claim-filter";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filter the claims");

  function field(name, title, control) {
    const label = document.createElement("label");
    control.name = name;
    label.append(title, control);
    form.append(label);
    return control;
  }
  function choice(name, title, names = new Map()) {
    const select = document.createElement("select");
    select.add(new Option("all", ""));
    const values = new Set(rows.map((row) => row[name]).filter(Boolean));
    for (const value of values) select.add(new Option(names.get(value) ?? value, value));
    select.name = name;
    // What is the same in all rows is no choice.
    const alike = values.size < 2 && rows.every((row) => row[name]);
    return alike ? select : field(name, title, select);
  }

  const words = document.createElement("input");
  words.type = "search";
  const fields = {
    words: field("words", "Words or id", words),
    source: choice("source", "Source", sourceTitles),
    section: choice("section", "Section"),
    verdict: choice("verdict", "Verdict"),
    state: choice("state", "State"),
    proof: choice("proof", "Proof"),
  };
  const reset = document.createElement("button");
  reset.type = "reset";
  reset.textContent = "Show all";
  const count = document.createElement("output");
  form.append(reset, count);
  tables[0].before(form);

  // On a phone the rows would be 150 screens: there each section of a source is a line,
  // which a press unfolds, until a filter chooses among the rows.
  const groups = [];
  function fold() {
    for (const row of rows) {
      // A comment is a claim or two: all comments are one line.
      const name = (row.section ?? "").replace(/^(Comment|Reply) by .*/, "");
      // A source comes back to some of its sections: what it says there joins them.
      const key = [tables.indexOf(row.element.closest("table")), row.source, name].join();
      let group = groups.find((one) => one.key === key);
      if (group && group !== groups.at(-1)) group.last.after(row.element);
      if (!group) {
        const [title] = row.element.dataset.sourceTitle.split(",");
        const words = [title, name].filter(Boolean).join(": ");
        const button = document.createElement("button");
        button.type = "button";
        const head = document.createElement("tr");
        head.className = "claim-group";
        head.append(document.createElement("th"));
        head.firstChild.colSpan = 3;
        head.firstChild.append(button);
        row.element.before(head);
        group = { key, words, head, button, open: false, rows: 0 };
        button.addEventListener("click", () => {
          group.open = !group.open;
          show();
        });
        groups.push(group);
      }
      group.rows += 1;
      group.last = row.element;
      row.group = group;
    }
    for (const { words, button, rows: held } of groups)
      button.textContent = `${words} (${held})`;
  }
  if (matchMedia("(max-width: 40rem)").matches) fold();

  // The rows hold more than a thousand links. Whoever comes by the Tab key finds, before
  // each table and each section of it, a button that leads past it.
  const skips = []; // those of the sections, in order
  function skip(words) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "claim-skip";
    button.textContent = words;
    return button;
  }
  for (const table of tables) {
    const whole = skip(`Skip the table: ${table.getAttribute("aria-label")}`);
    const end = document.createElement("p"); // takes the focus, and no room
    end.className = "claim-end";
    end.tabIndex = -1;
    end.textContent = "End of the table";
    whole.addEventListener("click", () => end.focus());
    table.before(whole);
    table.after(end);
    if (groups.length) continue; // each section has its line already
    for (const row of rows.filter(({ element }) => table.contains(element))) {
      const { source, section = "" } = row;
      const last = skips.at(-1);
      if (last?.table === table && last.source === source && last.section === section) {
        last.rows.push(row);
        continue;
      }
      const [title] = row.element.dataset.sourceTitle.split(",");
      const button = skip(`Skip ${[title, section].filter(Boolean).join(": ")}`);
      const one = { table, source, section, button, rows: [row] };
      button.addEventListener("click", () => {
        const after = skips.slice(skips.indexOf(one) + 1);
        const next = after.find((other) => other.table === table && other.button.isConnected);
        (next?.button ?? end).focus();
      });
      skips.push(one);
    }
  }

  function show() {
    const wanted = fields.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const filtering = Object.values(fields).some((control) => control.value);
    // An id means its own row, and not those that mention it.
    const id = fields.words.value.trim().toLowerCase();
    const named = rows.find(({ element }) => element.id.toLowerCase() === id);
    let fitting = 0;
    for (const row of rows) {
      const fits =
        ["source", "section", "verdict", "state", "proof"].every(
          (name) => !fields[name].value || fields[name].value === row[name],
        ) && (named ? row === named : wanted.every((word) => row.words.includes(word)));
      row.element.hidden = !fits || (!filtering && row.group?.open === false);
      fitting += fits;
    }
    // The first table has the filter in its section.
    for (const table of tables.slice(1))
      table.closest("section").hidden = !rows.some(
        ({ element }) => !element.hidden && table.contains(element),
      ) && filtering;
    for (const { head, button, open } of groups) {
      head.hidden = filtering;
      button.setAttribute("aria-expanded", open);
    }
    for (const { button, rows: held } of skips) {
      const first = held.find(({ element }) => !element.hidden);
      if (first) first.element.cells[0].prepend(button);
      else button.remove();
    }
    typeset();
    count.textContent =
      groups.length && !filtering
        ? `${rows.length} claims and results in ${groups.length} sections: press one to open it`
        : `${fitting} of ${rows.length} rows shown`;
  }

  function writeAddress() {
    const query = new URLSearchParams();
    for (const [name, control] of Object.entries(fields))
      if (control.value) query.set(name, control.value);
    const address = new URL(location.href);
    address.search = query;
    // The row that a link led to stays in the address as long as it is shown.
    // While the page loads, the address is without the row: otherwise the browser would
    // scroll to the row again after the reader has scrolled away from it.
    const row = linked();
    const shown = row && !row.element.hidden;
    const loading = document.readyState !== "complete";
    if (!shown || loading) address.hash = "";
    history.replaceState(null, "", address);
    if (!shown || !loading) return;
    const back = () => location.hash || history.replaceState(null, "", `#${row.element.id}`);
    addEventListener("load", () => setTimeout(back), { once: true });
  }

  function readAddress() {
    const query = new URLSearchParams(location.search);
    for (const [name, control] of Object.entries(fields))
      control.value = query.get(name) ?? "";
    show();
    if (location.search) form.scrollIntoView();
    revealTarget();
  }

  const linked = () => rows.find(({ element }) => `#${element.id}` === location.hash);

  // A link to a row wins over a filter that hides it.
  function revealTarget() {
    const row = linked();
    if (!row) return;
    if (row.element.hidden) {
      form.reset();
      if (row.group) row.group.open = true;
      show();
    }
    // A row that has been moved into its group is no :target any more.
    for (const { element } of rows) element.classList.toggle("target", element === row.element);
    row.element.scrollIntoView();
  }

  form.addEventListener("input", () => {
    show();
    writeAddress();
  });
  form.addEventListener("reset", () =>
    setTimeout(() => {
      show();
      writeAddress();
    }),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", revealTarget);
  addEventListener("popstate", readAddress);

  // The tables hold more than a thousand formulas. A few visible rows at a time keep
  // the page alive while MathJax works; a hidden row waits until it is shown.
  let ready = false;
  let work = Promise.resolve();
  function typeset() {
    if (ready) work = work.then(typesetShown);
    return work;
  }
  async function typesetShown() {
    for (;;) {
      const some = rows.filter((r) => !r.typeset && !r.element.hidden).slice(0, 24);
      if (!some.length) return;
      for (const row of some) row.typeset = true;
      await MathJax.typesetPromise(some.map((row) => row.element));
      await new Promise((next) => setTimeout(next));
    }
  }
  window.MathJax ??= {};
  window.MathJax.startup = {
    async pageReady() {
      const others = ".math:not(table.claim-ledger .math)";
      await softtopkTypeset(document.querySelectorAll(others));
      ready = true;
      await typeset();
    },
  };
  readAddress();
})();
