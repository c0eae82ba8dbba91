// Cells that run in the page, with no server and no network: Python in a worker, an
// editor in each cell that a reader touches, and what a run shows below what is printed.
// Nothing is loaded before the first click. What it loads are scripts, the one kind of
// file that a page may read from a folder: see tools/live.py.
"use strict";

(() => {
  const own = document.currentScript;
  const home = new URL("live/", own.src);
  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const button = (words, name, act) => {
    const node = make("button", { type: "button", textContent: words, onclick: act });
    if (name) node.setAttribute("aria-label", name);
    return node;
  };

  // --- Files: each comes as scripts that hand over pieces of it in base64 ---

  const pieces = new Map();
  let sizes;
  const live = (window.softtopkLive = {
    index: (found) => (sizes = found),
    take: (name, part, parts, text) => {
      if (!pieces.has(name)) pieces.set(name, new Array(parts));
      pieces.get(name)[part] =
        Uint8Array.fromBase64?.(text) ??
        Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    },
  });

  function load(name) {
    return new Promise((resolve, reject) => {
      const script = make("script", { src: new URL(name, home).href });
      script.onload = () => resolve(script.remove());
      script.onerror = () => reject(new Error(`${name} could not be loaded`));
      document.head.append(script);
    });
  }

  const once = (act) => {
    let kept;
    return (...given) =>
      (kept ??= act(...given).catch((error) => {
        kept = undefined; // the next click tries again
        throw error;
      }));
  };

  const editorScript = once(() => load("editor.js"));
  const allFiles = once(async () => {
    await load("index.js");
    const total = Object.values(sizes).reduce((sum, size) => sum + size);
    let got = 0;
    const one = async ([name, size]) => {
      await load(name);
      got += size;
      const words = `${(got / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`;
      panel.say(`Loading Python: ${words}`, got / total);
    };
    await Promise.all(Object.entries(sizes).map(one));
    const blobs = [...pieces].map(([name, parts]) => [name, new Blob(parts)]);
    pieces.clear();
    return new Map(blobs);
  });

  // --- The interpreter ---

  let worker = null; // or the port of a shared one
  let paper = null; // for a shared one: an address to withdraw
  let calls = new Map();

  // A worker that the pages of one tab share outlives a change of page, in Chromium (from
  // 148) and in Firefox; the name says which tab. A page in a folder may make none, and
  // some browsers have none: there each page has a worker of its own. A shared one needs
  // an address that it can read until the page withdraws it, to stop a cell.
  const NAME = "softtopk-python";
  const memory = (() => {
    try {
      return sessionStorage;
    } catch {
      return null; // the reader's settings forbid it
    }
  })();
  function shared() {
    if (!memory || !location.protocol.startsWith("http") || !window.SharedWorker)
      return null;
    memory[NAME] ??= crypto.getRandomValues(new Uint32Array(1))[0];
    const options = { name: memory[NAME], extendedLifetime: true };
    return new SharedWorker(new URL("worker.js", home), options);
  }

  function ask(task, given, show) {
    const id = crypto.getRandomValues(new Uint32Array(1))[0];
    return new Promise((resolve, reject) => {
      calls.set(id, { resolve, reject, show });
      worker.postMessage({ task, id, ...given });
    });
  }

  function hear({ data }) {
    if (data.kind === "stage") return panel.say(data.words, data.part);
    if (data.kind === "lost") return forget(); // another page has it now
    const call = calls.get(data.id);
    if (!call) return; // it has been stopped
    if (data.kind === "output") return call.show(data.output);
    calls.delete(data.id);
    return data.kind === "done" ? call.resolve(data) : call.reject(new Error(data.reason));
  }

  async function start() {
    if (typeof WebAssembly !== "object")
      throw new Error("this browser has no WebAssembly, which Python needs");
    if (worker) return;
    const now = round;
    size.remove(); // the panel says it from here
    panel.say("Starting Python", 0);
    const common = shared();
    if (common) {
      paper = URL.createObjectURL(new Blob());
      const { ready } = await first(common, common.port, { paper });
      if (ready) return;
    }
    const files = await allFiles();
    if (now !== round) throw new Stopped();
    panel.say("Starting Python", 0);
    if (common) {
      await first(common, common.port, { paper, files });
      return;
    }
    const code = await files.get("worker.js").text();
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const alone = new Worker(address);
    await first(alone, alone, { files });
  }

  // What a worker says to "start"; it may not even come so far.
  async function first(made, port, given) {
    worker = port;
    worker.onmessage = hear;
    const broken = new Promise((_, reject) => {
      made.onerror = (event) => reject(new Error(event.message || "no worker"));
    });
    try {
      return await Promise.race([ask("start", given), broken]);
    } catch (error) {
      end();
      throw error;
    }
  }

  // A page that is left may be kept, with its address: what runs there would go on.
  addEventListener("pagehide", () => {
    if (!paper || !calls.size) return;
    round += 1;
    URL.revokeObjectURL(paper);
    forget();
    panel.say(STOPPED, null);
  });

  function end() {
    worker?.terminate?.();
    if (paper) {
      URL.revokeObjectURL(paper); // it interrupts what runs
      worker?.postMessage({ task: "end" });
      delete memory[NAME];
    }
    forget();
  }

  function forget() {
    if (worker) worker.onmessage = null;
    worker = paper = null;
    const open = calls;
    calls = new Map();
    for (const { reject } of open.values()) reject(new Stopped());
    for (const cell of cells) cell.ran = null;
  }

  class Stopped extends Error {}

  // --- Outputs ---

  const RENDER = {
    "image/png": (data, alt) =>
      make("img", { src: `data:image/png;base64,${data}`, alt }),
    "text/latex": (data) =>
      make("div", {
        className: "output text_latex math notranslate nohighlight",
        textContent: data.replace(/^\$+\s*(.*?)\s*\$+$/s, "\\[$1\\]"),
      }),
    "text/markdown": table,
    "text/plain": (data) => text(data, "output text_plain"),
  };

  const text = (data, kind) => {
    const pre = make("pre", { textContent: data });
    const box = make("div", { className: "highlight" }, pre);
    return make("div", { className: `${kind} highlight-none notranslate` }, box);
  };

  // The tables that the book's cells make: a row a line, formulas between dollars.
  function table(data) {
    const rows = data.trim().split("\n").map((line) => line.split("|").slice(1, -1));
    const cell = (tag) => (words) => {
      const node = make(tag);
      words.trim().split(/(\$[^$]+\$)/).forEach((part, place) => {
        const inner = part.slice(1, -1);
        node.append(place % 2 ? make("span", { className: "math", textContent: `\\(${inner}\\)` }) : part);
      });
      return node;
    };
    const row = (tag) => (words) => make("tr", {}, ...words.map(cell(tag)));
    const [head, , ...body] = rows;
    const node = make("table", { className: "table" }, make("thead", {}, row("th")(head)));
    node.append(make("tbody", {}, ...body.map(row("td"))));
    return make("div", { className: "pst-scrollable-table-container" }, node);
  }

  function rendered(output, alt) {
    if (output.output_type === "error") return text(output.traceback, "output live-error");
    if (output.output_type === "stream") return text(output.text, `output ${output.name}`);
    const mime = Object.keys(RENDER).find((kind) => kind in output.data);
    return RENDER[mime](output.data[mime], alt);
  }

  class Outputs {
    constructor(owner) {
      this.owner = owner;
      this.clear();
    }
    clear() {
      if (this.box) this.owner.replaced(false);
      this.box?.remove();
      this.box = null;
      this.list = [];
    }
    show(output) {
      this.box ??= this.owner.place(this.region());
      this.owner.replaced(!this.owner.edited && output.output_type !== "error");
      const last = this.list.at(-1);
      const stream = output.output_type === "stream" && last?.name === output.name;
      if (stream) {
        last.text += output.text;
        this.box.lastChild.querySelector("pre").textContent = last.text;
        return;
      }
      this.list.push(output);
      const node = rendered(output, this.owner.alt);
      this.box.append(node);
      if (output.output_type === "error")
        for (let at = this.box.closest("details"); at; at = at.parentElement.closest("details"))
          at.open = true;
      window.MathJax?.startup?.promise
        ?.then(() => MathJax.typesetPromise([node]))
        .then(() => dispatchEvent(new Event("live-output")));
    }
    region() {
      const words = this.owner.edited ? "Run here, with your changes" : "Run here";
      const label = make("p", { className: "live-label", textContent: words });
      const box = make("div", { className: "cell_output live-output" }, label);
      box.id = `live-${this.owner.name.replace(" ", "-")}`;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${words}: ${this.owner.name}`);
      return box;
    }
  }

  // --- Cells ---

  // The buttons of a cell are one stop of the Tab key; the arrow keys move among them.
  function toolbar(box, name) {
    box.setAttribute("role", "toolbar");
    box.setAttribute("aria-label", `Buttons of ${name}: move with the arrow keys`);
    const stop = (to) => {
      for (const each of box.children) each.tabIndex = each === to ? 0 : -1;
    };
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const shown = [...box.children].filter((each) => !each.hidden);
      const place = shown.indexOf(document.activeElement) + step + shown.length;
      const to = shown[place % shown.length];
      stop(to);
      to.focus();
    });
    box.addEventListener("focusout", () => stop(box.lastElementChild));
    stop(box.lastElementChild);
  }

  const KEYS = "Shift+Enter runs the cell; Tab leaves the editor.";

  class Cell {
    constructor(number, name, input) {
      Object.assign(this, { number, name, input, editor: null, ran: null });
      this.outputs = new Outputs(this);
      this.buttons = make("div", { className: "live-tools" });
      this.undo = button("Undo changes", `Undo the changes of ${name}`, () => this.reset());
      this.undo.hidden = true;
      input.append(this.buttons);
    }
    get text() {
      return this.editor?.text() ?? this.source;
    }
    get edited() {
      return this.text !== this.source;
    }
    async edit(focus) {
      await editorScript();
      if (!this.editor) {
        const code = this.input.querySelector(".highlight");
        const place = make("div", { className: "highlight live-editor" });
        // The page's own keys, as "/" to search, are letters here.
        place.onkeydown = (event) =>
          event.ctrlKey || event.metaKey || event.stopPropagation();
        code.hidden = true;
        code.before(place);
        place.after(make("p", { className: "live-keys", textContent: KEYS }));
        this.editor = live.editor(place, {
          doc: this.source,
          label: `Code of ${this.name}`,
          hint: KEYS,
          run: () => this.run(),
          change: () => (this.undo.hidden = !this.edited),
        });
      }
      if (focus) this.editor.focus();
    }
    // Whether the run here takes the place of what the book prints.
    replaced() {}
    reset() {
      this.editor?.reset();
      this.editor?.focus();
    }
    restore() {
      this.outputs.clear();
      this.ran = null;
      this.undo.hidden = true;
      this.editor?.remove();
      this.editor = null;
      for (const part of this.input.querySelectorAll(".live-editor, .live-keys"))
        part.remove();
      this.input.querySelector(".highlight").hidden = false;
    }
  }

  // A cell of the notebook.
  class BookCell extends Cell {
    constructor(number, input) {
      super(number, `cell ${number + 1}`, input);
      this.source = input.querySelector("pre").textContent.replace(/\n$/, "");
      this.box = input.closest(".cell");
      const shown = this.box.querySelector("[role=img][aria-label], img[alt]");
      const words = shown?.getAttribute("aria-label") ?? shown?.alt;
      this.alt = `Drawn here, in place of: ${words ?? "a figure"}`;
      this.buttons.append(
        this.undo,
        button("Edit", `Edit ${this.name}`, () => attempt(() => this.edit(true))),
        button("Run", `Run ${this.name}`, () => this.run()),
      );
      toolbar(this.buttons, this.name);
    }
    // The same code shows the same again, and once is enough. With changes a reader wants
    // to compare; and a figure has its number and caption in the book's output.
    replaced(by) {
      for (const shown of this.box.querySelectorAll(".cell_output:not(.live-output)"))
        shown.classList.toggle("live-replaced", by && !shown.querySelector("figure"));
    }
    // Whether the cell is a folded check or plot, on which no open cell depends.
    get isAside() {
      const folds = ["claim", "check", "plot"].map((kind) => `details.fold-${kind}`);
      return Boolean(this.input.closest(folds.join(", ")));
    }
    // What a check prints stays in its fold; a figure or a formula is for all to see.
    place(region) {
      const fold = this.input.closest("details.fold-claim, details.fold-check");
      (fold ?? this.box).append(region);
      return region;
    }
    run() {
      queue(async () => {
        await this.edit(false);
        await runAll([...stale(this.number - 1, this.isAside), this], `${this.name} has run`);
      });
    }
  }

  // An empty cell below an exercise, to try an answer in.
  class Trial extends Cell {
    constructor(number, exercise) {
      const title = exercise.querySelector(".caption-number").textContent.trim();
      const input = make("div", { className: "cell_input live-trial" });
      input.append(make("div", { className: "highlight" }, make("pre")));
      super(number, `your cell of ${title}`, input);
      this.source = "";
      this.alt = `Drawn by your cell of ${title}`;
      this.box = make("div", { className: "cell live-cell", hidden: true }, input);
      this.above = cells.filter(({ box }) => follows(box, exercise)).at(-1)?.number ?? -1;
      const link = `.solution a[href="#${CSS.escape(exercise.id)}"]`;
      const solution = document.querySelector(link)?.closest(".solution");
      this.solution = cells.filter(({ box }) => solution?.contains(box));
      this.buttons.append(button("Run", `Run ${this.name}`, () => this.run()));
      if (this.solution.length)
        this.buttons.append(button("Check", `Check ${this.name}`, () => this.check()));
      toolbar(this.buttons, this.name);
      this.open = button("Try it here", `Try ${title} here`, () => this.begin());
      exercise.append(make("p", { className: "live-try" }, this.open));
      exercise.after(this.box);
    }
    begin() {
      this.box.hidden = false;
      attempt(() => this.edit(true));
    }
    place(region) {
      this.box.append(region);
      return region;
    }
    restore() {
      super.restore();
      this.box.hidden = true;
    }
    run() {
      queue(async () => {
        await this.answer();
        panel.say(`${this.name} has run`, null);
      });
    }
    async answer(all = false) {
      await runAll(stale(this.above, all));
      panel.say(`Running ${this.name}`);
      await execute(this, this.above);
    }
    check() {
      queue(async () => {
        await this.answer(true);
        const sources = this.solution.map((cell) => cell.text);
        const given = { sources, answer: this.text, number: this.number, above: this.number };
        panel.say(`Checking ${this.name}`);
        const found = await ask("check", given, (output) => this.outputs.show(output));
        const { good, used, names } = found;
        const verdict = good ? "The check passes" : "The check fails";
        const words = used.length
          ? `${verdict} with your ${used.join(", ")}.`
          : names.length
            ? `${verdict}, but your cell gives none of the names that it asks for, so this says nothing of your answer. It asks for: ${names.join(", ")}.`
            : `${verdict}. It belongs to the solution of the book and uses nothing of your cell: compare your argument with the solution.`;
        this.outputs.show({ output_type: "stream", name: "verdict", text: words });
        panel.say(words, null);
      });
    }
  }

  const follows = (first, second) =>
    first.compareDocumentPosition(second) & Node.DOCUMENT_POSITION_FOLLOWING;

  // The cells down to this one, from the first that is not up to date: all of them, or
  // without folded checks and plots. No open cell uses a name that those define (a test
  // of the book holds that), but another check may, or the check of an exercise.
  function stale(number, all) {
    const above = cells.slice(0, number + 1).filter((cell) => all || !cell.isAside);
    const first = above.findIndex((cell) => cell.ran !== cell.text);
    return first < 0 ? [] : above.slice(first);
  }

  // Run a cell on the names that the cells down to `number` have left. Those that were
  // left out, or that ran before a cell above them ran again, have left nothing to use.
  async function execute(cell, number) {
    cell.outputs.clear();
    for (const later of [cell, ...cells.slice(cell.number + 1)]) later.ran = null;
    const source = cell.text;
    const current = (other) => other.number <= number && other.ran === other.text;
    const above = cells.findLast(current)?.number ?? -1;
    const given = { source, number: cell.number, above };
    const { good } = await ask("run", given, (output) => cell.outputs.show(output));
    if (good) {
      cell.ran = source;
      return true;
    }
    const { ename, evalue } = cell.outputs.list.at(-1);
    panel.say(`${cell.name} failed: ${ename}${evalue && `: ${evalue}`}`.slice(0, 200), null, cell);
    throw new Failed();
  }

  class Failed extends Error {}

  async function runAll(wanted, words) {
    await start();
    for (const [place, cell] of wanted.entries()) {
      const step = `${place + 1} of ${wanted.length}`;
      panel.say(`Running ${cell.name}, ${step}`, place / wanted.length);
      await execute(cell, cell.number - 1);
    }
    if (words) panel.say(words, null);
  }

  // --- What a reader asks for, one thing after another ---

  let last = Promise.resolve();
  let round = 0;

  function queue(act) {
    const now = round;
    panel.show();
    panel.busy(1);
    last = last
      .then(() => now === round && act())
      .catch((error) => now === round && complain(error))
      .then(() => panel.busy(-1));
    return last;
  }

  function complain(error) {
    if (error instanceof Stopped || error instanceof Failed) return;
    const notebook = "To run the cells elsewhere, download the notebook.";
    panel.say(`Python does not run here: ${error.message}. ${notebook}`, null);
  }

  async function attempt(act) {
    try {
      await act();
    } catch (error) {
      panel.show();
      complain(error);
    }
  }

  const STOPPED = "Stopped. Your changes are kept; the next run starts Python again.";

  function stop() {
    round += 1;
    end();
  }

  // --- The panel: what is happening, and how to stop it ---

  class Panel {
    constructor() {
      this.status = make("span", { className: "live-status" });
      this.status.setAttribute("role", "status");
      this.bar = make("progress", { max: 1, hidden: true });
      this.bar.setAttribute("aria-label", "Progress");
      this.stop = button("Stop", "", () => {
        stop();
        this.say(STOPPED, null);
      });
      this.all = button("Run all", "Run all cells", everything);
      this.reset = button("Reset", "Reset the page", reset);
      this.close = button("Close", "Close this panel", () => this.hide());
      this.box = make("section", { className: "live-panel", hidden: true });
      this.box.setAttribute("aria-label", "Python in this page");
      this.box.append(this.status, this.bar, this.stop, this.all, this.reset, this.close);
      document.querySelector("article").append(this.box);
      this.open = 0;
    }
    show() {
      if (this.box.hidden) this.from = document.activeElement;
      this.box.hidden = false;
    }
    // The next run shows it again; the focus goes back to where the reader came from.
    hide() {
      this.box.hidden = true;
      (this.from?.isConnected ? this.from : offer).focus();
    }
    busy(more) {
      this.open += more;
      this.stop.hidden = !this.open;
      this.all.hidden = this.close.hidden = Boolean(this.open);
      if (!this.open) this.bar.hidden = true;
    }
    // Words; how far it is, null for at rest; and the cell that they are about.
    say(words, part, cell) {
      this.status.textContent = words[0].toUpperCase() + words.slice(1);
      this.bar.hidden = part === null;
      if (part === undefined) this.bar.removeAttribute("value");
      else if (part !== null) this.bar.value = part;
      if (!cell?.outputs.box) return;
      const link = make("a", { href: `#${cell.outputs.box.id}`, textContent: "Show it" });
      this.status.append(" ", link);
    }
  }

  function everything() {
    queue(() => runAll(cells.slice(), "All cells have run"));
  }

  function reset() {
    const edited = [...cells, ...trials].some((cell) => cell.edited);
    if (edited && !confirm("Reset the page? Your changes to the code will be lost."))
      return;
    stop();
    for (const cell of [...cells, ...trials]) cell.restore();
    panel.box.hidden = true;
    offer.focus();
  }

  // --- The page ---

  const row = document.querySelector(".fold-switch");
  if (own.dataset.needs) {
    const needs = own.dataset.needs;
    const words = `The cells of this page need ${needs}, which no browser runs: download the notebook to run them.`;
    row.append(make("p", { className: "live-needs", textContent: words }));
    return;
  }
  const inputs = document.querySelectorAll("article .cell .cell_input");
  const cells = [...inputs].map((input, number) => new BookCell(number, input));
  const exercises = [...document.querySelectorAll("article .exercise")];
  const trials = exercises.map((box, place) => new Trial(cells.length + place, box));
  const panel = new Panel();
  const offer = button("Run all", "Run all cells of this page", everything);
  const size = make("span", { className: "live-size", id: "live-size" });
  size.textContent = `loads ${own.dataset.megabytes} MB`;
  offer.setAttribute("aria-describedby", size.id);
  row.append(make("span", {}, size, " ", offer));
  live.cells = cells; // for the tests
  // The interpreter of the page before ends when no page holds it.
  if (memory?.[NAME]) live.held = shared();
  document.documentElement.classList.add("live");
})();
