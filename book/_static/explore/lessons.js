/* Small explorables inside chapters, each teaching one thing. */
"use strict";

(function () {
  const { make, draw, show, slider, plot, path, matrix } = globalThis.softtopkParts;
  const operators = globalThis.softtopk;

  /* A lesson: controls above a plot, and a sentence that says what is seen. */
  class Lesson extends HTMLElement {
    connectedCallback() {
      if (this.built) return;
      this.built = true;
      this.said = make("p", { class: "explore-said", "aria-live": "polite" });
      const changed = () => this.update();
      const controls = this.controls(changed);
      this.replaceChildren(
        make("div", { class: "explore-controls" }, ...controls.map((control) => control.node)),
        ...this.pictures(),
        this.said,
      );
      this.update();
    }
  }

  /* The count of the router's scores above a threshold that the reader moves by hand. */
  class Count extends Lesson {
    controls(changed) {
      const names = ["sigmoid", "laplace", "exp", "clip"];
      const options = names.map((name) => make("option", { value: name }, operators.curves[name].label));
      this.curve = make("select", {}, ...options);
      this.curve.addEventListener("change", changed);
      const labelled = make("label", { class: "explore-select" }, make("span", {}, "curve"), this.curve);
      this.k = slider("k", { min: 0.5, max: 7.5, step: 0.5, value: 2 }, changed);
      this.level = slider("λ", { min: -4, max: 6, step: 0.01, value: 1 }, changed);
      return [{ node: labelled }, this.k, this.level];
    }

    pictures() {
      this.plot = plot({
        room: this.clientWidth,
        x: [-4, 6],
        y: [0, 8],
        xLabel: "λ",
        yLabel: "Σ f(x − λ)",
        name: "The count as a function of the threshold",
      });
      return [this.plot.svg];
    }

    update() {
      const x = [1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6];
      const name = this.curve.value;
      const shares = (v) => x.map((score) => operators.curves[name].value(score - v));
      const count = (v) => shares(v).reduce((total, share) => total + share, 0);
      const [k, at] = [this.k.value, this.level.value];
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren(
        draw("line", { x1: toX(-4), x2: toX(6), y1: toY(k), y2: toY(k), class: "explore-level" }),
        path(this.plot, count, [-4, 6], { class: "explore-curve" }),
        draw("circle", { cx: toX(operators.threshold(name, x, k, 1)), cy: toY(k), r: 5, class: "explore-ring" }),
        draw("circle", { cx: toX(at), cy: toY(count(at)), r: 7, class: "explore-dot" }),
      );
      const off = count(at) - k;
      const advice = Math.abs(off) < 0.01 ? "this λ is the threshold, to a hundredth" : off > 0 ? "too many, raise λ" : "too few, lower λ";
      this.said.textContent = `The eight shares ${shares(at).map((p) => p.toFixed(2)).join(", ")} add up to ${show(count(at))}, and k = ${show(k)}: ${advice}.`;
    }
  }

  /* lambda as the least of the candidates of the segments, for min(1, e^t). */
  class Segments extends Lesson {
    controls(changed) {
      this.k = slider("k", { min: 0.5, max: 3.9, step: 0.05, value: 2.6 }, changed);
      this.first = slider("x₁", { min: 0, max: 4, step: 0.05, value: 2.5 }, changed);
      return [this.k, this.first];
    }

    pictures() {
      this.plot = plot({
        room: this.clientWidth,
        x: [-1, 4],
        y: [0, 5],
        xLabel: "λ",
        yLabel: "Σ min(1, e^(x−λ))",
        name: "The sum and its upper bounds",
      });
      return [this.plot.svg];
    }

    update() {
      const x = [this.first.value, 1.2, 0.4, 0, -0.6].sort((a, b) => b - a);
      const k = this.k.value;
      const levels = operators.segments(x, k, 1);
      const best = levels.indexOf(Math.min(...levels));
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren();
      levels.forEach((_, m) => {
        const bound = (v) => Math.min(5, m + x.slice(m).reduce((sum, s) => sum + Math.exp(s - v), 0));
        layer.append(path(this.plot, bound, [-1, 4], { class: m === best ? "explore-bound explore-best" : "explore-bound" }));
      });
      const sum = (v) => x.reduce((total, s) => total + Math.min(1, Math.exp(s - v)), 0);
      layer.append(path(this.plot, sum, [-1, 4], { class: "explore-curve" }));
      layer.append(draw("line", { x1: toX(-1), x2: toX(4), y1: toY(k), y2: toY(k), class: "explore-level" }));
      levels.forEach((level, m) => {
        if (level < -1 || level > 4) return;
        const dot = draw("circle", { cx: toX(level), cy: toY(k), r: m === best ? 7 : 4.5, class: m === best ? "explore-dot" : "explore-ring" });
        dot.append(draw("title", {}, `m = ${m}: ${show(level)}`));
        layer.append(dot);
      });
      const list = levels.map((level, m) => `λ${"₀₁₂₃₄"[m]} = ${show(level)}`).join(", ");
      this.said.textContent = `Every bound lies above the sum, so it crosses k to the right of λ or at λ. Candidates: ${list}. The least, m = ${best}, is λ.`;
    }
  }

  /* The Laplace curve at k = 1 against softmax: equal while the largest share is at most one half. */
  class Half extends Lesson {
    controls(changed) {
      this.gap = slider("x₁", { min: -1, max: 5, step: 0.05, value: 1.6 }, changed);
      return [this.gap];
    }

    pictures() {
      this.plot = plot({
        room: this.clientWidth,
        x: [-1, 5],
        y: [0, 1],
        xLabel: "x₁, with x₂ = 0.5 and x₃ = 0",
        yLabel: "largest share",
        name: "Softmax and the Laplace curve at k = 1",
      });
      return [this.plot.svg];
    }

    update() {
      const scores = (v) => [v, 0.5, 0];
      const soft = (v) => Math.max(...operators.softmax(scores(v), 1));
      const laplace = (v) => Math.max(...operators.softTopK("laplace", scores(v), 1, 1));
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren(
        draw("line", { x1: toX(-1), x2: toX(5), y1: toY(0.5), y2: toY(0.5), class: "explore-level" }),
        path(this.plot, soft, [-1, 5], { class: "explore-curve explore-dashed" }),
        path(this.plot, laplace, [-1, 5], { class: "explore-curve" }),
      );
      const v = this.gap.value;
      layer.append(
        draw("circle", { cx: toX(v), cy: toY(soft(v)), r: 5, class: "explore-ring" }),
        draw("circle", { cx: toX(v), cy: toY(laplace(v)), r: 6, class: "explore-dot" }),
      );
      const s = soft(v);
      const p = laplace(v);
      this.said.textContent =
        s <= 0.5
          ? `Softmax gives ${show(s)}, at most one half: the Laplace curve gives the same, ${show(p)}.`
          : `Softmax (dashed) gives ${show(s)}, above one half: the Laplace curve (solid) gives 1 − ½√((1 − s)/s) = ${show(p)}.`;
    }
  }

  /* Plain Newton on sum sigma(x - l) = 1 for x = (0, 0), and Newton in e^(-l). */
  class Newton extends Lesson {
    controls(changed) {
      this.start = slider("λ₀", { min: 0, max: 6, step: 0.01, value: 2.2 }, changed);
      return [this.start];
    }

    pictures() {
      this.plot = plot({
        room: this.clientWidth,
        x: [0, 8],
        y: [-10, 10],
        xLabel: "step",
        yLabel: "λ",
        name: "Iterates of two Newton methods",
      });
      return [this.plot.svg];
    }

    update() {
      const start = this.start.value;
      const plain = [start];
      const safe = [start];
      for (let step = 0; step < 8; step++) {
        const l = plain[step];
        plain.push(l - Math.sinh(l));
        const s = safe[step];
        const p = 1 / (1 + Math.exp(s));
        safe.push(s - Math.log1p((0.5 - p) / (p * (1 - p))));
      }
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren();
      const trace = (values, line, dot) => {
        const out = values.findIndex((v) => !(Math.abs(v) < 10)); // it has left for good
        const kept = out < 0 ? values : values.slice(0, out + 1);
        const clipped = kept.map((v) => Math.max(-10, Math.min(10, v)));
        const points = clipped.map((v, i) => `${toX(i)},${toY(v)}`).join(" ");
        layer.append(draw("polyline", { points, fill: "none", class: line }));
        clipped.forEach((v, i) => layer.append(draw("circle", { cx: toX(i), cy: toY(v), r: 4.5, class: dot })));
      };
      trace(plain, "explore-curve explore-dashed", "explore-ring");
      trace(safe, "explore-curve", "explore-dot");
      const boundary = 2.1773189849653067; // sinh(l) = 2 l
      const fate = Math.abs(start) < boundary ? "converges" : "diverges";
      this.said.textContent = `From λ₀ = ${show(start)} plain Newton (dashed) ${fate}; the boundary is |λ₀| = 2.177, where sinh λ = 2λ. Newton in e^(−λ) (solid) falls to ${show(safe[8])}.`;
    }
  }

  /* Marginals of a random k-subset, and how its members repel each other. */
  class Subset extends Lesson {
    controls(changed) {
      this.k = slider("k", { min: 1, max: 4, step: 1, value: 2 }, changed);
      this.scores = [1.6, 0.8, 0, -0.4, -1.2].map((value, i) =>
        slider(`x${"₁₂₃₄₅"[i]}`, { min: -3, max: 3, step: 0.05, value }, changed),
      );
      return [this.k, ...this.scores];
    }

    pictures() {
      this.bars = make("div", { class: "explore-picture" });
      this.picture = make("div", { class: "explore-picture" });
      return [
        make(
          "div",
          { class: "explore-results" },
          make("figure", {}, this.bars, make("figcaption", {}, "chance to be in the subset")),
          make("figure", {}, this.picture, make("figcaption", {}, "covariance: blue above 0, orange below")),
        ),
      ];
    }

    update() {
      const x = this.scores.map((score) => score.value);
      const k = Math.round(this.k.value);
      const p = operators.gradTopK(x, k, 1);
      const rows = operators.gradJacobian(x, k, 1);
      const text = p.map(show).join(", ");
      const bars = draw("svg", { viewBox: "0 0 5 5", class: "explore-matrix", role: "img", "aria-label": `Marginals ${text}` });
      bars.append(draw("line", { x1: 0, x2: 5, y1: 5, y2: 5, class: "explore-base" }));
      p.forEach((share, i) => {
        const bar = draw("rect", { x: i + 0.1, width: 0.8, y: 5 - 5 * share, height: 5 * share, class: "explore-bar" });
        bar.append(draw("title", {}, show(share)));
        bars.append(bar);
      });
      this.bars.replaceChildren(bars);
      this.picture.replaceChildren(matrix(rows, "Covariance of the subset's indicator"));
      this.said.textContent = `The chances ${text} sum to ${show(p.reduce((a, b) => a + b, 0))}. Every covariance off the diagonal is negative: one member in leaves less room for the others.`;
    }
  }

  customElements.define("softtopk-count", Count);
  customElements.define("softtopk-segments", Segments);
  customElements.define("softtopk-half", Half);
  customElements.define("softtopk-newton", Newton);
  customElements.define("softtopk-subset", Subset);
})();
