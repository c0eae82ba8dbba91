/* Two more explorables, for the router's eight scores. */
"use strict";

(function () {
  const { make, draw, show, slider, plot, path, matrix } = globalThis.softtopkParts;
  const operators = globalThis.softtopk;
  const Lesson = Object.getPrototypeOf(customElements.get("softtopk-half")); // of lessons.js

  const ROUTER = [1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6];
  const K = 2;

  /* A labelled choice of a curve. */
  function choice(names, changed) {
    const select = make("select", { "aria-label": "curve" });
    names.forEach((name) => select.append(make("option", { value: name }, operators.curves[name].label)));
    select.addEventListener("change", changed);
    const node = make("label", { class: "explore-select" }, make("span", {}, "curve"), select);
    return { node, get value() { return select.value; } };
  }

  /* One score moves; its share gains what the others lose. */
  class Pushes extends Lesson {
    controls(changed) {
      this.curve = choice(["laplace", "sigmoid", "exp", "clip", "triangular"], changed);
      this.score = slider("x₈", { min: -2, max: 4, step: 0.05, value: 1.6 }, changed);
      return [this.curve, this.score];
    }

    pictures() {
      this.bars = make("div", { class: "explore-picture" });
      this.picture = make("div", { class: "explore-picture" });
      return [
        make(
          "div",
          { class: "explore-results" },
          make("figure", {}, this.bars, make("figcaption", {}, "∂pᵢ/∂x₈: gains above, losses below")),
          make("figure", {}, this.picture, make("figcaption", {}, "Jacobian: blue above 0, orange below")),
        ),
      ];
    }

    update() {
      const x = [...ROUTER.slice(0, 7), this.score.value];
      const rows = operators.jacobian(this.curve.value, x, K, 1);
      const pushes = rows.map((row) => (Math.abs(row[7]) < 1e-12 ? 0 : row[7]));
      const top = Math.max(1e-9, pushes[7]);
      const bars = draw("svg", { viewBox: "0 0 8 8", class: "explore-matrix", role: "img", "aria-label": `Derivatives by x₈: ${pushes.map(show).join(", ")}` });
      pushes.forEach((push, i) => {
        const height = (3.9 * Math.abs(push)) / top;
        const bar = draw("rect", { x: i + 0.1, width: 0.8, y: push > 0 ? 4 - height : 4, height, class: "explore-bar" });
        bar.append(draw("title", {}, `score ${show(x[i])}: ${show(push)}`));
        bars.append(bar);
      });
      bars.append(draw("line", { x1: 0, x2: 8, y1: 4, y2: 4, class: "explore-base" }));
      this.bars.replaceChildren(bars);
      this.picture.replaceChildren(matrix(rows, "Jacobian"));
      const lost = pushes.slice(0, 7).reduce((a, b) => a + b, 0);
      this.said.textContent =
        pushes[7] > 0
          ? `The share of x₈ gains ${show(pushes[7])} per unit, the seven others lose ${show(-lost)}: the budget stays.`
          : "The curve is flat at x₈, or it alone is on a slope: nothing moves.";
    }
  }

  /* What the largest error of an exponential curve tends to, and when an exact curve is exact. */
  const GAP = 0.3;
  const LEADING = {
    sigmoid: { text: "e^(−Δ/2τ)", at: (tau) => Math.exp(-GAP / (2 * tau)) },
    laplace: { text: "½e^(−Δ/2τ)", at: (tau) => Math.exp(-GAP / (2 * tau)) / 2 },
    exp: { text: "e^(−Δ/τ)", at: (tau) => Math.exp(-GAP / tau) },
  };
  const WIDTH = { clip: 1, triangular: 2 };
  const HARD = operators.topK(ROUTER, K);

  /* The selection cools; its largest error follows the leading term. */
  class Cooling extends Lesson {
    controls(changed) {
      this.curve = choice(["sigmoid", "laplace", "exp", "clip", "triangular"], changed);
      this.tau = slider("τ", { min: -1.7, max: 0.3, step: 0.01, value: -1, scale: (v) => 10 ** v }, changed);
      return [this.curve, this.tau];
    }

    pictures() {
      this.plot = plot({
        room: this.clientWidth,
        x: [0, 50],
        y: [-6, 0],
        xLabel: "1/τ",
        yLabel: "log₁₀ of the largest error",
        name: "The largest error and its leading term",
      });
      return [this.plot.svg];
    }

    update() {
      const name = this.curve.value;
      const error = (tau) => Math.max(...operators.softTopK(name, ROUTER, K, tau).map((p, i) => Math.abs(p - HARD[i])));
      const height = (value) => Math.min(0, Math.max(-6, Math.log10(value)));
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren();
      const leading = LEADING[name];
      if (leading) {
        layer.append(path(this.plot, (v) => height(leading.at(1 / v)), [0.5, 50], { class: "explore-curve explore-dashed" }));
      } else {
        const x = toX(WIDTH[name] / GAP);
        layer.append(draw("line", { x1: x, x2: x, y1: toY(-6), y2: toY(0), class: "explore-level" }));
      }
      layer.append(path(this.plot, (v) => height(error(1 / v)), [0.5, 50], { class: "explore-curve" }));
      const tau = this.tau.value;
      const found = error(tau);
      layer.append(draw("circle", { cx: toX(1 / tau), cy: toY(height(found)), r: 6, class: "explore-dot" }));
      const start = `At τ = ${show(tau)} the largest error is ${show(found)}`;
      this.said.textContent = leading
        ? `${start}; the leading term ${leading.text} (dashed) is ${show(leading.at(tau))}.`
        : found < 1e-12
          ? `At τ = ${show(tau)} the selection is exact: the gap 0.3 is at least ${WIDTH[name]}·τ.`
          : `${start}; it is zero from τ = 0.3/${WIDTH[name]} on (dotted line).`;
    }
  }

  customElements.define("softtopk-pushes", Pushes);
  customElements.define("softtopk-cooling", Cooling);
})();
