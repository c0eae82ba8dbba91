/* <softtopk-explorer>: drag scores, slide k and the temperature, choose the curve. */
"use strict";

(function () {
  const { make, draw, show, slider, plot, path, matrix, scale } = globalThis.softtopkParts;
  const operators = globalThis.softtopk;
  const RANGE = [-4, 4];
  /* A router's scores for eight experts: the book's running example. */
  const START = { x: [1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6], k: 2, tau: 0.5, curve: "laplace" };
  const MAX_SCORES = 24;

  /* The state in an address: #x=2.2,1.4&k=2.5&tau=0.5&curve=laplace; null if it is none. */
  function read(hash) {
    const fields = new URLSearchParams(hash.replace(/^#/, ""));
    if (!fields.has("x")) return null;
    const x = fields.get("x").split(",").map(Number);
    const good = x.length >= 2 && x.length <= MAX_SCORES && x.every((v) => v >= RANGE[0] && v <= RANGE[1]);
    const k = Number(fields.get("k") ?? START.k);
    const tau = Number(fields.get("tau") ?? START.tau);
    const curve = fields.get("curve") ?? START.curve;
    if (!good || !(k >= 0 && k <= x.length) || !(tau >= 0.01 && tau <= 10)) return null;
    if (curve !== "gradtopk" && !Object.hasOwn(operators.curves, curve)) return null;
    return { x, k, tau, curve };
  }

  function write({ x, k, tau, curve }) {
    const short = (v) => String(Number(v.toFixed(3)));
    return `#x=${x.map(short).join(",")}&k=${short(k)}&tau=${short(tau)}&curve=${curve}`;
  }

  class Explorer extends HTMLElement {
    connectedCallback() {
      if (this.built) return;
      this.built = true;
      this.linked = this.hasAttribute("linked");
      const state = (this.linked && read(location.hash)) || START;
      this.x = [...state.x];
      this.curve = make("select");
      for (const [name, { label }] of Object.entries(operators.curves)) {
        this.curve.append(make("option", { value: name }, label));
      }
      this.curve.append(make("option", { value: "gradtopk" }, "GradTopK"));
      this.curve.value = state.curve;
      this.curve.addEventListener("change", () => this.update());
      const changed = () => this.update();
      this.k = slider("k", { min: 0, max: this.x.length, step: 0.05, value: state.k }, changed);
      this.tau = slider(
        "τ",
        { min: -2, max: 1, step: 0.01, value: Math.log10(state.tau), scale: (v) => Number((10 ** v).toPrecision(2)) },
        changed,
      );
      this.readouts = make("dl", { class: "explore-readouts" });
      this.picture = make("div", { class: "explore-picture" });
      this.table = make("tbody");
      this.plot = plot({
        room: this.clientWidth,
        x: RANGE,
        y: [0, 1],
        xLabel: "score x: drag a point",
        yLabel: "share p",
        name: "Scores and their shares",
      });
      this.lines = draw("g", { "aria-hidden": "true" });
      this.handles = draw("g");
      this.plot.layer.append(this.lines, this.handles);
      this.replaceChildren(
        make(
          "div",
          { class: "explore-controls" },
          make("label", { class: "explore-select" }, make("span", {}, "operator"), this.curve),
          this.k.node,
          this.tau.node,
          this.buttons(),
        ),
        this.plot.svg,
        make(
          "div",
          { class: "explore-results" },
          this.readouts,
          make("figure", {}, this.picture, make("figcaption", {}, "Jacobian ∂p/∂x: row i is share i, column j score j")),
        ),
        make(
          "details",
          {},
          make("summary", {}, "The numbers"),
          make(
            "table",
            { class: "explore-numbers" },
            make("thead", {}, make("tr", {}, ...["i", "x", "p", "hard"].map((t) => make("th", { scope: "col" }, t)))),
            this.table,
          ),
        ),
      );
      if (this.linked) {
        addEventListener("hashchange", () => {
          const next = read(location.hash);
          if (next && write(next) !== write(this.state)) this.restore(next);
        });
      }
      this.build();
    }

    get state() {
      return { x: this.x, k: this.k.value, tau: this.tau.value, curve: this.curve.value };
    }

    restore({ x, k, tau, curve }) {
      this.x = [...x];
      this.k.input.max = x.length;
      this.k.position = k;
      this.tau.position = Math.log10(tau);
      this.curve.value = curve;
      this.build();
    }

    buttons() {
      const row = make("div", { class: "explore-buttons" });
      const button = (text, action) => {
        const node = make("button", { type: "button" }, text);
        node.addEventListener("click", action);
        row.append(node);
      };
      button("New scores", () => {
        const x = Array.from({ length: this.x.length }, () => Number((Math.random() * 6 - 3).toFixed(3)));
        this.restore({ ...this.state, x: x.sort((a, b) => b - a) });
      });
      button("Make a tie", () => {
        const k = Math.min(this.x.length - 1, Math.max(1, Math.ceil(this.k.value)));
        const order = [...this.x].sort((a, b) => b - a);
        const x = this.x.map((v) => (v === order[k] ? order[k - 1] : v));
        this.restore({ ...this.state, x });
      });
      button("Reset", () => this.restore(START));
      return row;
    }

    /* One handle a score: pointer and keyboard both move it. */
    build() {
      this.handles.replaceChildren();
      this.points = this.x.map((_, i) => {
        const dot = draw("circle", { r: 7 });
        const grip = draw("circle", { r: 18, class: "explore-grip" });
        const handle = draw(
          "g",
          {
            class: "explore-handle",
            tabindex: 0,
            role: "slider",
            "aria-label": `score ${i + 1}`,
            "aria-valuemin": RANGE[0],
            "aria-valuemax": RANGE[1],
          },
          grip,
          dot,
        );
        const move = (v) => {
          this.x[i] = Number(Math.min(RANGE[1], Math.max(RANGE[0], v)).toFixed(3));
          this.update();
        };
        const steps = { ArrowRight: 0.05, ArrowUp: 0.05, ArrowLeft: -0.05, ArrowDown: -0.05, PageUp: 0.5, PageDown: -0.5 };
        handle.addEventListener("keydown", (event) => {
          if (event.key in steps) move(this.x[i] + steps[event.key]);
          else if (event.key === "Home") move(RANGE[0]);
          else if (event.key === "End") move(RANGE[1]);
          else return;
          event.preventDefault();
        });
        handle.addEventListener("pointerdown", (event) => {
          handle.setPointerCapture(event.pointerId);
          handle.focus();
          event.preventDefault();
        });
        handle.addEventListener("pointermove", (event) => {
          if (!handle.hasPointerCapture(event.pointerId)) return;
          const box = this.plot.svg.getBoundingClientRect();
          move(this.plot.fromX(((event.clientX - box.left) / box.width) * this.plot.width));
        });
        this.handles.append(handle);
        return handle;
      });
      this.update();
    }

    update() {
      const { x, tau, curve } = this.state;
      const grad = curve === "gradtopk";
      const k = grad ? Math.round(this.k.value) : this.k.value;
      const p = grad ? operators.gradTopK(x, k, tau) : operators.softTopK(curve, x, k, tau);
      const hard = operators.topK(x, k);
      const level = grad ? NaN : operators.threshold(curve, x, k, tau);
      const rows = grad ? operators.gradJacobian(x, k, tau) : operators.jacobian(curve, x, k, tau);
      this.drawLines(x, p, hard, level, { grad, curve, tau });
      this.points.forEach((handle, i) => {
        const at = [this.plot.toX(x[i]), this.plot.toY(p[i])];
        handle.setAttribute("transform", `translate(${at[0].toFixed(2)} ${at[1].toFixed(2)})`);
        handle.setAttribute("aria-valuenow", x[i]);
        handle.setAttribute("aria-valuetext", `${show(x[i])}, share ${show(p[i])}`);
      });
      const distance = p.reduce((sum, share, i) => sum + Math.abs(share - hard[i]), 0);
      const total = p.reduce((a, b) => a + b, 0);
      this.readouts.replaceChildren();
      const entries = [
        ["Σ p", show(total)],
        ["threshold λ", grad ? "none" : show(level)],
        ["Σ |p − hard|", show(distance)],
      ];
      if (grad) entries.push(["k", `${k}, a whole number`]);
      for (const [term, value] of entries) {
        this.readouts.append(make("div", {}, make("dt", {}, term), make("dd", {}, value)));
      }
      this.picture.replaceChildren(matrix(rows, "Jacobian of p by x"), scale(rows));
      this.table.replaceChildren(
        ...x.map((v, i) =>
          make("tr", {}, ...[i + 1, show(v), show(p[i]), show(hard[i])].map((t) => make("td", {}, String(t)))),
        ),
      );
      if (this.linked) history.replaceState(null, "", write(this.state));
    }

    drawLines(x, p, hard, level, { grad, curve, tau }) {
      const { toX, toY } = this.plot;
      this.lines.replaceChildren();
      if (grad) {
        const order = x.map((_, i) => i).sort((a, b) => x[a] - x[b]);
        const points = order.map((i) => `${toX(x[i])},${toY(p[i])}`).join(" ");
        this.lines.append(draw("polyline", { points, fill: "none", class: "explore-curve explore-dashed" }));
      } else if (Number.isFinite(level)) {
        const share = (v) => operators.curves[curve].value((v - level) / tau);
        this.lines.append(path(this.plot, share, RANGE, { class: "explore-curve" }, 481));
        if (level >= RANGE[0] && level <= RANGE[1]) {
          this.lines.append(
            draw("line", { x1: toX(level), x2: toX(level), y1: toY(0), y2: toY(1), class: "explore-level" }),
            // above the squares of the hard selection
            draw("text", { x: toX(level), y: toY(1) - 9, "text-anchor": "middle", class: "explore-lambda" }, "λ"),
          );
        }
      }
      x.forEach((v, i) => {
        const at = { x: toX(v) - 5, y: toY(hard[i]) - 5, width: 10, height: 10 };
        this.lines.append(draw("rect", { ...at, class: "explore-hard" }));
      });
    }
  }

  customElements.define("softtopk-explorer", Explorer);
})();
