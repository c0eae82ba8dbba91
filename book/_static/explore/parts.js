/* What the explorable figures share: SVG, sliders, a plot with axes, a matrix picture. */
"use strict";

globalThis.softtopkParts = (function () {
  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    return fill(node, attributes, children);
  }

  function draw(tag, attributes = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    return fill(node, attributes, children);
  }

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  /* Four significant digits, and no minus sign before a zero. */
  function show(value) {
    if (value === Infinity) return "∞";
    if (value === -Infinity) return "−∞";
    if (Math.abs(value) < 5e-16) return "0";
    const size = Math.abs(value);
    const text = size < 1e-3 || size >= 1e5 ? value.toExponential(3) : value.toPrecision(4);
    return text.replaceAll("-", "−");
  }

  /* A labelled range input; `scale` maps its position to the value shown and used. */
  function slider(label, { min, max, step, value, scale = (v) => v, format = show }, changed) {
    const input = make("input", { type: "range", min, max, step, "aria-label": label });
    input.value = value;
    const out = make("output");
    const update = () => {
      const text = format(scale(Number(input.value)));
      out.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    input.addEventListener("input", () => {
      update();
      changed();
    });
    update();
    const node = make("label", { class: "explore-slider" }, make("span", {}, label), input, out);
    return {
      node,
      input,
      get value() {
        return scale(Number(input.value));
      },
      set position(position) {
        input.value = position;
        update();
      },
    };
  }

  /* An SVG plot with linear axes; returns the maps from data to picture and back. */
  function plot({ room, x, y, xLabel, yLabel, name }) {
    const narrow = room && room < 480; // fewer units, larger words: they stay legible
    const width = narrow ? 400 : 640;
    const height = 280;
    const margin = { left: 52, right: 12, top: 24, bottom: 42 };
    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${height}`,
      class: narrow ? "explore-plot explore-narrow" : "explore-plot",
      role: "group",
      "aria-label": name,
    });
    const toX = (v) => margin.left + ((v - x[0]) / (x[1] - x[0])) * (width - margin.left - margin.right);
    const toY = (v) => height - margin.bottom - ((v - y[0]) / (y[1] - y[0])) * (height - margin.top - margin.bottom);
    const fromX = (px) => x[0] + ((px - margin.left) / (width - margin.left - margin.right)) * (x[1] - x[0]);
    const frame = draw("g", { class: "explore-axes", "aria-hidden": "true" });
    for (const v of ticks(x)) {
      frame.append(
        draw("line", { x1: toX(v), x2: toX(v), y1: toY(y[0]), y2: toY(y[1]) }),
        draw("text", { x: toX(v), y: toY(y[0]) + 17, "text-anchor": "middle" }, label(v)),
      );
    }
    for (const v of ticks(y)) {
      frame.append(
        draw("line", { x1: toX(x[0]), x2: toX(x[1]), y1: toY(v), y2: toY(v) }),
        draw("text", { x: toX(x[0]) - 6, y: toY(v) + 4, "text-anchor": "end" }, label(v)),
      );
    }
    frame.append(
      draw("text", { x: (toX(x[0]) + toX(x[1])) / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
      draw(
        "text",
        { transform: `translate(12 ${(toY(y[0]) + toY(y[1])) / 2}) rotate(-90)`, "text-anchor": "middle" },
        yLabel,
      ),
    );
    const layer = draw("g");
    svg.append(frame, layer);
    return { svg, layer, toX, toY, fromX, width };
  }

  function label(v) {
    return String(v).replace("-", "−");
  }

  function ticks([from, to]) {
    const raw = (to - from) / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const values = [];
    for (let v = Math.ceil(from / step) * step; v <= to + 1e-9; v += step) {
      values.push(Number(v.toPrecision(12)));
    }
    return values;
  }

  /* The path of a function over a plot. */
  function path({ toX, toY }, f, [from, to], attributes, count = 241) {
    const points = [];
    for (let i = 0; i < count; i++) {
      const v = from + ((to - from) * i) / (count - 1);
      points.push(`${toX(v).toFixed(2)},${toY(f(v)).toFixed(2)}`);
    }
    return draw("polyline", { points: points.join(" "), fill: "none", ...attributes });
  }

  /* What is as small as the rounding of a matrix's entries is shown as zero. */
  function rounded(rows) {
    return rows.map((row) => row.map((value) => (Math.abs(value) < 1e-9 ? 0 : value)));
  }

  function largest(rows) {
    return Math.max(0, ...rounded(rows).flat().map(Math.abs));
  }

  /* How an entry is coloured: blue above zero, red below, as in the book's figures (see
     CHANGE in softtopk/figures.py), and the stronger the larger. */
  function shade(value, top) {
    return {
      fill: value >= 0 ? "#1B3A6B" : "#B2182B",
      "fill-opacity": Math.sqrt(Math.abs(value) / (top || 1)).toFixed(3),
    };
  }

  /* A symmetric matrix as coloured squares. */
  function matrix(all, name) {
    const n = all.length;
    const top = largest(all);
    const svg = draw("svg", {
      viewBox: `0 0 ${n} ${n}`,
      class: "explore-matrix",
      role: "img",
      "aria-label": `${name}: ${n} by ${n}, largest entry ${show(top)}`,
    });
    rounded(all).forEach((row, i) =>
      row.forEach((value, j) => {
        const square = draw("rect", { x: j, y: i, width: 0.96, height: 0.96, ...shade(value, top) });
        square.append(draw("title", {}, `∂p${i + 1}/∂x${j + 1} = ${show(value)}`));
        svg.append(square);
      }),
    );
    return svg;
  }

  /* The scale of such a picture: its colours from the least possible entry to the largest. */
  function scale(rows) {
    const top = largest(rows);
    const steps = top ? [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1] : [0];
    const width = 220;
    const each = width / steps.length;
    const ends = top ? [[-top, 0, "start"], [0, width / 2, "middle"], [top, width, "end"]] : [[0, width / 2, "middle"]];
    const words = ends.map(([value]) => show(value)).join(", ");
    const svg = draw("svg", {
      viewBox: `0 0 ${width} 34`,
      class: "explore-scale",
      role: "img",
      "aria-label": `Scale of the colours: ${words}`,
    });
    svg.append(draw("rect", { x: 0, y: 0, width, height: 14, fill: "#fff" }));
    steps.forEach((part, i) => {
      svg.append(draw("rect", { x: i * each, y: 0, width: each, height: 14, ...shade(part, 1) }));
    });
    for (const [value, x, anchor] of ends) {
      svg.append(draw("text", { x, y: 30, "text-anchor": anchor }, show(value)));
    }
    return svg;
  }

  return { make, draw, show, slider, plot, path, matrix, scale };
})();
