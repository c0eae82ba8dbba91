// Formulas that break by the width they get, which MathJax 3 does not do by itself.
//
// What MathJax has set is cut into pieces, between which a browser may begin a new line:
// at commas and relations, in what is still long also at sums and products, and then in
// brackets. An equation that its source breaks into rows is put together again, and
// breaks only where its column is too narrow for it. A short formula stays whole; one
// that no cut makes narrow enough scrolls in its own box (see book.css).
"use strict";

(() => {
  if (!window.MathJax) return;

  // Widths are guessed in signs, of half the size of the type each: a formula may be
  // folded away, where nothing has a width.
  const LONG = 20; // more than that does not stay whole; fits a theorem on a phone
  const AUTHORED = -1; // what it costs to begin a line where the source begins one
  const BARS = "|‖∥";
  const OPERATORS = { 3: "+−⋅×±∖∘⊗⊙", 4: "=<>≤≥≈∼≡≠→⟹⟺⇒⇔∈∉∝:" };
  const SPACES = [0, 0.111, 0.167, 0.222, 0.278, 0.333]; // of MathJax's attribute, in em

  const inside = (parent) =>
    [...parent.children].filter((node) => node.localName !== "mjx-tstrut");
  const gap = (node) => SPACES[node.getAttribute("space") ?? 0];
  const spaced = (node, kind) => node.setAttribute("space", kind);

  // The sign of a node that is one operator, as MathJax's class for it tells.
  function sign(node) {
    const atom = node.localName === "mjx-texatom" && node.children.length === 1;
    const inner = atom ? node.firstElementChild : node;
    if (inner.localName !== "mjx-mo") return "";
    const code = /mjx-c([0-9A-F]+)/.exec(inner.innerHTML)?.[1];
    return code ? String.fromCodePoint(parseInt(code, 16)) : "";
  }
  const isOne = (node, signs) => sign(node) !== "" && signs.includes(sign(node));

  // What bears an exponent or an index, as the second bracket in (a − b)².
  const bearer = (node) =>
    node.matches("mjx-msup, mjx-msub, mjx-msubsup") ? node.firstElementChild : node;

  // +1 for a bracket that opens, -1 for one that closes.
  function turn(whole) {
    const node = bearer(whole);
    const kind = node.getAttribute("texclass");
    if (kind === "OPEN" || isOne(node, "([{⟨⌊⌈")) return 1;
    return kind === "CLOSE" || isOne(node, ")]}⟩⌋⌉") ? -1 : 0;
  }

  // The same for each of a row of nodes, in which the bars of a norm or of an absolute
  // value open and close by turns. A bar without another one in its brackets is neither.
  function turns(nodes) {
    const found = nodes.map(turn);
    const open = []; // what is open, from the outermost
    for (const [place, node] of nodes.entries()) {
      const mark = found[place] ? "" : sign(bearer(node));
      if (found[place] > 0) open.push({ place, mark: "" });
      else if (found[place] < 0) while (open.length && open.pop().mark);
      else if (mark && BARS.includes(mark)) {
        if (open.at(-1)?.mark === mark) [found[open.pop().place], found[place]] = [1, -1];
        else open.push({ place, mark });
      }
    }
    return found;
  }

  // The width of a node that is nothing but space, in em.
  function blank(node) {
    const found = node.localName === "mjx-mstyle" ? node.firstElementChild : node;
    if (found?.localName !== "mjx-mspace" || found.nextElementSibling) return 0;
    return parseFloat(found.style.width) || 0;
  }

  const PARTS = "mjx-num, mjx-den, mjx-base, mjx-over, mjx-under, mjx-mtr";
  function width(node) {
    if (node.localName === "mjx-c") return /27F[5-F]/.test(node.className) ? 3 : 1;
    if (node.localName === "mjx-mspace") return 2 * blank(node);
    const stacked = [0]; // what stands above each other, as in a fraction
    let beside = 0;
    const add = (inner) => {
      for (const each of inner.children) {
        if (each.matches(PARTS)) stacked.push(width(each));
        else if (each.matches("mjx-mrow, mjx-texatom") || !each.querySelector(PARTS))
          beside += width(each);
        else add(each);
      }
    };
    add(node);
    const small = node.getAttribute("size") === "s" || node.localName === "mjx-script";
    return (small ? 0.7 : 1) * (beside + Math.max(...stacked)) + 2 * gap(node);
  }
  const total = (nodes) => nodes.reduce((sum, node) => sum + width(node), 0);

  // What it costs to begin a line at each node: the less, the better the place. Every
  // bracket around a place adds three. In a line of text an operator ends its line, in
  // an equation on its own it begins the next one.
  function costs(nodes, display) {
    let depth = 0;
    let after = Infinity; // for the next node that is no space: a comma or a wide space
    // lets it begin a line
    let operand = false; // what follows an operator has the same space before it
    const brackets = turns(nodes);
    return nodes.map((node, place) => {
      if (blank(node)) {
        if (blank(node) >= 1) after = Math.min(after, 3 * depth);
        return Infinity;
      }
      const bracket = brackets[place];
      if (bracket < 0) depth = Math.max(0, depth - 1);
      const kind = { 3: 2, 4: 1 }[node.getAttribute("space")];
      const operator = kind && !operand && sign(node) ? kind + 3 * depth : Infinity;
      operand = operator < Infinity;
      let factor = Infinity; // in a product of brackets the next one may begin a line
      const here = Math.min(after, display ? operator : Infinity);
      if (display && bracket > 0 && brackets[place - 1] < 0) factor = 2.5 + 3 * depth;
      after = isOne(node, ",;") ? 3 * depth : display ? Infinity : operator;
      if (bracket > 0) depth += 1;
      return bracket < 0 ? Infinity : (node.authored ?? Math.min(here, factor));
    });
  }

  // The pieces of a row of nodes: cut where it costs least, and again what is still long.
  function pieces(nodes, cost, most) {
    const inner = cost.with(0, Infinity);
    const least = Math.min(...inner);
    if (least === Infinity || (least > AUTHORED && total(nodes) <= most)) return [nodes];
    const places = [...inner.keys()].filter((place) => inner[place] === least);
    return [0, ...places].flatMap((from, number) => {
      const to = places[number];
      return pieces(nodes.slice(from, to), inner.slice(from, to), most);
    });
  }

  // Brackets that grow with what they hold make a node of it: it is taken out of it.
  function flattened(parent) {
    const rows = () => [...parent.children].filter((node) => node.matches("mjx-mrow"));
    for (let row; (row = rows().find((node) => node.children.length > 1)); ) {
      const kind = row.getAttribute("space");
      if (kind) spaced(row.firstElementChild, kind);
      row.replaceWith(...row.children);
    }
    return inside(parent);
  }

  // Cut what a node holds into pieces; whether there was a place to.
  function cut(parent, display, most) {
    const long = total(inside(parent)) > most;
    const nodes = long ? flattened(parent) : inside(parent);
    const wrappers = "mjx-mrow, mjx-mstyle, mjx-texatom";
    const through = nodes.length === 1 && nodes[0].matches(wrappers);
    if (through ? !cut(nodes[0], display, most) : !nodes.length) return false;
    const found = pieces(nodes, costs(nodes, display), most);
    if (found.length < 2 && !through) return false;
    parent.classList.add("flow");
    let space = 0; // between two pieces, in em
    if (through) return true;
    for (const list of found) {
      const piece = document.createElement("mjx-piece");
      list[0].before(piece);
      if (list !== found[0]) {
        const between = document.createElement("mjx-break"); // goes where a line ends
        between.textContent = " ";
        space += gap(list[0]) + (list[0].apart ?? 0);
        between.style.wordSpacing = `${(space - 0.25).toFixed(3)}em`;
        piece.before(between);
        list[0].removeAttribute("space");
      }
      for (space = 0; list !== found.at(-1) && list.length > 1 && blank(list.at(-1)); ) {
        space += blank(list.at(-1));
        list.pop().remove();
      }
      piece.append(...list);
    }
    return true;
  }

  // Put the rows of an equation that go on with the one above behind it.
  function join(rows) {
    let last = null; // the cell that the next row may go on with
    for (const row of rows) {
      const [left, right] = row.children;
      const nodes = inside(right ?? left);
      if (last && right && !left.querySelector("mjx-c") && goesOn(inside(last))) {
        const empty = (node) => !node.querySelector("[class*='mjx-c']");
        while (nodes.length > 1 && empty(nodes[0])) nodes.shift();
        const [first, second] = nodes;
        const kind = Object.keys(OPERATORS).find((each) => isOne(first, OPERATORS[each]));
        first.authored = AUTHORED;
        if (!kind) first.apart = 1; // words: a space before them
        else for (const node of [first, second]) if (node && !blank(node)) spaced(node, kind);
        inside(last).at(-1).after(...nodes);
        row.remove();
      } else last = right ?? left;
    }
  }
  const goesOn = (nodes) =>
    turns(nodes).reduce((sum, one) => sum + one, 0) > 0 || !isOne(nodes.at(-1), ",;.");

  // The rows of an equation on its own; Sphinx puts them into a table of one cell.
  function rowsOf(math) {
    let rows = [];
    for (let node = math; node; node = inside(node).length === 1 && node.firstElementChild)
      if (node.localName === "mjx-itable") rows = [...node.children];
    return rows.every((row) => row.children.length < 3) ? rows : [];
  }

  function breakable(container) {
    const display = container.hasAttribute("display");
    const math = container.querySelector("mjx-math");
    const rows = display ? rowsOf(math) : [];
    if (rows.length) {
      join(rows);
      const left = rows.map((row) => total([...row.children].slice(0, -1)));
      const most = Math.max(LONG / 3, LONG - Math.max(...left));
      const done = rows.map((row) => cut(row.lastElementChild, true, most));
      if (done.includes(true)) container.classList.add("breaks", "rows");
    } else if (cut(math, display, LONG)) {
      container.classList.add("breaks");
    }
  }

  // As soon as MathJax has put a formula into its page, which is its state 200.
  const seen = new WeakSet();
  const each = ({ typesetRoot: root }) => {
    if (!root || seen.has(root)) return;
    seen.add(root);
    breakable(root);
  };
  const every = ({ math }) => {
    for (const item of math) each(item);
  };
  MathJax.options.renderActions = { pieces: [201, every, each] };

  // What is in sight is set first: a chapter has up to a thousand formulas, and MathJax
  // would show none before it has set all. In between the page stays alive, and whoever
  // scrolls comes first again.
  const MOST = 40; // formulas at a time; more than are in sight on a phone
  const inSight = (node) => {
    const { top, bottom, width } = node.getBoundingClientRect();
    return width > 0 && bottom > 0 && top < innerHeight;
  };
  const isBelow = (node) => node.getBoundingClientRect().bottom > 0;
  window.softtopkTypeset = async (nodes) => {
    const [above, below] = [[], []];
    for (const node of nodes) (isBelow(node) ? below : above).push(node);
    let rest = [...below, ...above.reverse()];
    while (rest.length) {
      const seen = rest.filter(inSight);
      const next = new Set((seen.length ? seen : rest).slice(0, MOST));
      rest = rest.filter((node) => !next.has(node));
      await MathJax.typesetPromise([...next]);
      await new Promise((after) => setTimeout(after));
    }
  };
  MathJax.startup ??= {};
  MathJax.startup.pageReady ??= () =>
    window.softtopkTypeset(document.querySelectorAll(".math:not(.math *)"));
})();
