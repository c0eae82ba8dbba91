/* Small explorables inside chapters, each teaching one thing. */
"use strict";

(function () {
  const { make, draw, show, slider, plot, path, matrix } = globalThis.softtopkParts;
  const operators = globalThis.softtopk;

  const ROUTER = [1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6];

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

  /* A labelled choice of a curve. */
  function choice(names, changed) {
    const select = make("select", { "aria-label": "curve" });
    names.forEach((name) => select.append(make("option", { value: name }, operators.curves[name].label)));
    select.addEventListener("change", changed);
    const node = make("label", { class: "explore-select" }, make("span", {}, "curve"), select);
    return { node, get value() { return select.value; } };
  }

  /* The count of the router's scores above a threshold that the reader moves by hand. */
  class Count extends Lesson {
    controls(changed) {
      this.curve = choice(["sigmoid", "laplace", "exp", "clip"], changed);
      this.k = slider("k", { min: 0.5, max: 7.5, step: 0.5, value: 2 }, changed);
      this.level = slider("λ", { min: -4, max: 6, step: 0.01, value: 1 }, changed);
      return [this.curve, this.k, this.level];
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
      const name = this.curve.value;
      const shares = (v) => ROUTER.map((score) => operators.curves[name].value(score - v));
      const count = (v) => shares(v).reduce((total, share) => total + share, 0);
      const [k, at] = [this.k.value, this.level.value];
      const { layer, toX, toY } = this.plot;
      layer.replaceChildren(
        draw("line", { x1: toX(-4), x2: toX(6), y1: toY(k), y2: toY(k), class: "explore-level" }),
        path(this.plot, count, [-4, 6], { class: "explore-curve" }),
        draw("circle", { cx: toX(operators.threshold(name, ROUTER, k, 1)), cy: toY(k), r: 5, class: "explore-ring" }),
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

  /* GradTopK beside one threshold for all, and how the chosen ones repel each other. */
  class Subset extends Lesson {
    controls(changed) {
      this.k = slider("k", { min: 1, max: 7, step: 1, value: 2, format: String }, changed);
      this.tau = slider("τ", { min: -1, max: 0.7, step: 0.01, value: 0, scale: (v) => 10 ** v }, changed);
      return [this.k, this.tau];
    }

    pictures() {
      this.bars = make("div", { class: "explore-picture" });
      this.picture = make("div", { class: "explore-picture" });
      return [
        make(
          "div",
          { class: "explore-results" },
          make("figure", {}, this.bars, make("figcaption", {}, "bars: chance to be in the subset; lines: sigmoid curve")),
          make("figure", {}, this.picture, make("figcaption", {}, "Jacobian: blue above 0, orange below")),
        ),
      ];
    }

    update() {
      const k = Math.round(this.k.value);
      const tau = this.tau.value;
      const p = operators.gradTopK(ROUTER, k, tau);
      const other = operators.softTopK("sigmoid", ROUTER, k, tau);
      const text = p.map((share) => share.toFixed(3)).join(", ");
      const bars = draw("svg", { viewBox: "0 0 8 8", class: "explore-matrix explore-bars", role: "img", "aria-label": `Shares of GradTopK: ${text}` });
      bars.append(draw("line", { x1: 0, x2: 8, y1: 8, y2: 8, class: "explore-base" }));
      p.forEach((share, i) => {
        const bar = draw("rect", { x: i + 0.1, width: 0.8, y: 8 - 8 * share, height: 8 * share, class: "explore-bar" });
        bar.append(draw("title", {}, `score ${show(ROUTER[i])}: ${show(share)}, sigmoid curve ${show(other[i])}`));
        const y = 8 - 8 * other[i];
        bars.append(bar, draw("line", { x1: i, x2: i + 1, y1: y, y2: y, class: "explore-mark" }));
      });
      this.bars.replaceChildren(bars);
      this.picture.replaceChildren(matrix(operators.gradJacobian(ROUTER, k, tau), "Jacobian of GradTopK"));
      const apart = Math.max(...p.map((share, i) => Math.abs(share - other[i])));
      const sum = p.reduce((a, b) => a + b, 0);
      this.said.textContent = `The chances ${text} sum to ${show(sum)}. One threshold for all, with the sigmoid curve, differs by at most ${show(apart)}.`;
    }
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
      const rows = operators.jacobian(this.curve.value, x, 2, 1);
      const pushes = rows.map((row) => (Math.abs(row[7]) < 1e-12 ? 0 : row[7]));
      const top = Math.max(1e-9, pushes[7]);
      const bars = draw("svg", { viewBox: "0 0 8 8", class: "explore-matrix explore-bars", role: "img", "aria-label": `Derivatives by x₈: ${pushes.map(show).join(", ")}` });
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
    sigmoid: { text: "e^(−Δ/(2τ))", at: (tau) => Math.exp(-GAP / (2 * tau)) },
    laplace: { text: "½e^(−Δ/(2τ))", at: (tau) => Math.exp(-GAP / (2 * tau)) / 2 },
    exp: { text: "e^(−Δ/τ)", at: (tau) => Math.exp(-GAP / tau) },
  };
  const WIDTH = { clip: 1, triangular: 2 };
  const HARD = operators.topK(ROUTER, 2);

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
      const error = (tau) => Math.max(...operators.softTopK(name, ROUTER, 2, tau).map((p, i) => Math.abs(p - HARD[i])));
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

  /* Entmax of the router's scores, for every alpha from 1 to 2. */
  class Entmax extends Lesson {
    controls(changed) {
      const format = (v) => v.toFixed(2);
      this.alpha = slider("α", { min: 1, max: 2, step: 0.01, value: 1.5, format }, changed);
      return [this.alpha];
    }

    pictures() {
      this.picture = draw("svg", { viewBox: "0 0 400 190", class: "explore-plot", role: "img" });
      return [this.picture];
    }

    update() {
      const p = operators.entmax(ROUTER, this.alpha.value);
      const minus = (score) => String(score).replace("-", "−");
      const text = p.map(show).join(", ");
      this.picture.setAttribute("aria-label", `The shares of eight scores: ${text}`);
      this.picture.replaceChildren(draw("line", { x1: 0, x2: 400, y1: 160, y2: 160, class: "explore-level" }));
      p.forEach((share, i) => {
        const height = 150 * share;
        const bar = draw("rect", { x: 50 * i + 8, width: 34, y: 160 - height, height, class: "explore-bar" });
        bar.append(draw("title", {}, show(share)));
        const label = { x: 50 * i + 25, y: 180, "text-anchor": "middle", "aria-hidden": "true" };
        this.picture.append(bar, draw("text", label, minus(ROUTER[i])));
        if (share === 0) {
          this.picture.append(draw("text", { ...label, y: 152 }, "0"));
        }
      });
      const out = ROUTER.filter((_, i) => p[i] === 0).sort((a, b) => a - b).map(minus);
      const inside = ROUTER.length - out.length;
      const rest = out.length ? ` Without one: ${out.join(", ")}.` : "";
      this.said.textContent = `${inside} of 8 scores have a share, the largest is ${show(Math.max(...p))}.${rest}`;
    }
  }

  customElements.define("softtopk-count", Count);
  customElements.define("softtopk-segments", Segments);
  customElements.define("softtopk-half", Half);
  customElements.define("softtopk-newton", Newton);
  customElements.define("softtopk-subset", Subset);
  customElements.define("softtopk-pushes", Pushes);
  customElements.define("softtopk-cooling", Cooling);
  customElements.define("softtopk-entmax", Entmax);
})();
