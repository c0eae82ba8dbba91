/* Entmax of the router's eight scores, for every alpha from 1 to 2. Built when seen. */
"use strict";

(function (root) {
  const SCORES = [1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6];

  /* p_i = [z_i - l]_+^(1/b) with z = b (x - max x), b = alpha - 1; the sum falls in l. */
  function entmax(x, alpha) {
    const b = alpha - 1;
    const top = Math.max(...x);
    if (b === 0) {
      const weights = x.map((score) => Math.exp(score - top));
      const sum = weights.reduce((a, w) => a + w, 0);
      return weights.map((w) => w / sum);
    }
    const shares = (level) => x.map((s) => Math.max(b * (s - top) - level, 0) ** (1 / b));
    let from = -1; // the largest score alone contributes 1
    let to = -(x.length ** -b); // no score contributes more than 1/n
    for (let step = 0; step < 80; step++) {
      const middle = 0.5 * (from + to);
      const sum = shares(middle).reduce((a, p) => a + p, 0);
      if (sum >= 1) from = middle;
      else to = middle;
    }
    return shares(from);
  }

  if (typeof module !== "undefined") module.exports = { entmax, SCORES };
  if (typeof customElements === "undefined") return;
  const { make, draw, show, slider } = root.softtopkParts;
  const minus = (score) => String(score).replace("-", "−");

  class Entmax extends HTMLElement {
    connectedCallback() {
      if (this.seen) return;
      this.seen = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        this.seen.disconnect();
        this.build();
      }, { rootMargin: "300px" });
      this.seen.observe(this);
    }

    build() {
      const format = (v) => v.toFixed(2);
      const range = { min: 1, max: 2, step: 0.01, value: 1.5, format };
      this.alpha = slider("α", range, () => this.update());
      this.picture = draw("svg", { viewBox: "0 0 400 190", class: "explore-plot", role: "img" });
      this.said = make("p", { class: "explore-said", "aria-live": "polite" });
      this.replaceChildren(
        make("div", { class: "explore-controls" }, this.alpha.node),
        this.picture,
        this.said,
      );
      this.update();
    }

    update() {
      const p = entmax(SCORES, this.alpha.value);
      const text = p.map(show).join(", ");
      this.picture.setAttribute("aria-label", `The shares of eight scores: ${text}`);
      this.picture.replaceChildren(draw("line", { x1: 0, x2: 400, y1: 160, y2: 160, class: "explore-level" }));
      p.forEach((share, i) => {
        const height = 150 * share;
        const bar = draw("rect", { x: 50 * i + 8, width: 34, y: 160 - height, height, class: "explore-bar" });
        bar.append(draw("title", {}, show(share)));
        const label = { x: 50 * i + 25, y: 180, "text-anchor": "middle", "aria-hidden": "true" };
        this.picture.append(bar, draw("text", label, minus(SCORES[i])));
        if (share === 0) {
          this.picture.append(draw("text", { ...label, y: 152 }, "0"));
        }
      });
      const out = SCORES.filter((_, i) => p[i] === 0).sort((a, b) => a - b).map(minus);
      const inside = SCORES.length - out.length;
      const rest = out.length ? ` Without one: ${out.join(", ")}.` : "";
      this.said.textContent = `${inside} of 8 scores have a share, the largest is ${show(Math.max(...p))}.${rest}`;
    }
  }

  customElements.define("softtopk-entmax", Entmax);
})(globalThis);
