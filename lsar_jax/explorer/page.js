"use strict";
/* The page computes with coordinates z of the sentences, as lsar_jax/explorer/space.py says: a step of a method is
   y = z - s - D B^T (z - s) + o, the map is a linear projection of y, and neighbours are those with the largest cosine,
   in which the length of what is outside the coordinates counts too. */
const explorer = (() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { languages, language, texts, unit, looks } = data;
  const count = texts.length;
  const state = { layer: 0, method: 0, rank: 0, tsne: false, chosen: 0, hidden: new Set() };
  const layer = () => data.layers[state.layer];
  const method = () => layer().methods[state.method];

  // ---- Algebra ----

  const KINDS = { Int8: Int8Array, Int16: Int16Array, Int32: Int32Array, Float32: Float32Array };

  /** The numbers of an array that Python packed. */
  function unpack(packed) {
    const text = atob(packed.data), bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    const numbers = new KINDS[packed.kind](bytes.buffer);
    return packed.scale === undefined ? numbers : Float32Array.from(numbers, (value) => value * packed.scale);
  }

  /** Reads the coordinates of a layer and the steps of its methods, once. */
  function read(of) {
    if (of.z) return of;
    const center = unpack(of.center), scale = unpack(of.scale), width = of.width;
    of.z = Float32Array.from(unpack(of.values), (value, at) => center[at % width] + value * scale[at % width]);
    of.square = unpack(of.residual).map((length) => length * length);
    for (const step of of.methods.flatMap(({ steps }) => steps)) {
      for (const part of Object.values(step)) part.numbers = unpack(part);
    }
    return of;
  }

  /** Where the numbers of a part begin that hold for a language; a part for all languages has so many axes. */
  function start(part, axes, number) {
    return part.shape.length > axes ? number * part.shape.slice(1).reduce((a, b) => a * b) : 0;
  }

  /** The coordinates after a method that removes the first directions. */
  function moved({ z, width }, { steps, top }, rank) {
    const y = z.slice();
    for (const { shift, basis, dual = basis, offset } of steps) {
      const columns = basis ? basis.shape.at(-1) : 0, used = top === null ? columns : Math.min(rank, columns);
      const parts = new Float64Array(used);
      for (let row = 0; row < count; row++) {
        const v = y.subarray(row * width, (row + 1) * width), number = language[row];
        if (shift) {
          for (let d = 0, at = start(shift, 1, number); d < width; d++) v[d] -= shift.numbers[at + d];
        }
        if (used) {
          parts.fill(0);
          for (let d = 0, at = start(basis, 2, number); d < width; d++, at += columns) {
            for (let r = 0; r < used; r++) parts[r] += v[d] * basis.numbers[at + r];
          }
          for (let d = 0, at = start(dual, 2, number); d < width; d++, at += columns) {
            for (let r = 0; r < used; r++) v[d] -= parts[r] * dual.numbers[at + r];
          }
        }
        if (offset) {
          for (let d = 0, at = start(offset, 1, number); d < width; d++) v[d] += offset.numbers[at + d];
        }
      }
    }
    return y;
  }

  /** The other sentences that are nearest to a row, by cosine, the nearest first. */
  function nearest({ width, square }, y, row) {
    const found = [], query = y.subarray(row * width, (row + 1) * width);
    for (let other = 0; other < count; other++) {
      let dot = 0, squares = square[other];
      for (let d = 0, at = other * width; d < width; d++, at++) {
        dot += query[d] * y[at];
        squares += y[at] * y[at];
      }
      found.push({ row: other, cosine: squares ? dot / Math.sqrt(squares) : 0 });
    }
    const length = query.reduce((sum, value) => sum + value * value, square[row]);
    for (const each of found) each.cosine /= Math.sqrt(length) || 1;
    found.splice(row, 1);
    return found.sort((a, b) => b.cosine - a.cosine).slice(0, data.neighbours);
  }

  /** The places on the map: two projections of the coordinates. */
  function projected({ width }, y, axes) {
    const x = new Float64Array(count), height = new Float64Array(count);
    for (let row = 0, at = 0; row < count; row++) {
      for (let d = 0; d < width; d++, at++) {
        x[row] += y[at] * axes[2 * d];
        height[row] += y[at] * axes[2 * d + 1];
      }
    }
    return { x, y: height };
  }

  // ---- What is computed at each change ----

  const slides = () => method().top !== null;
  const measured = () => method().states[slides() ? state.rank : 0];
  const named = () => (slides() ? `${method().name}, rank ${state.rank}` : method().name);
  const same = (a, b) => language[a] === language[b];
  const translates = (a, b) => unit !== null && unit[a] === unit[b] && !same(a, b);
  let y, place, before, after;

  function compute() {
    const of = read(layer());
    y = moved(of, method(), state.rank);
    if (state.tsne) {
      place = plane(of.tsne[slides() && state.rank === 0 ? 0 : 1 + state.method]);
    } else {
      place = measured().plane ? plane(measured().plane) : projected(of, y, unpack(measured().axes));
    }
  }

  /** The places on a map that Python drew. */
  function plane(packed) {
    const values = unpack(packed);
    return { x: values.filter((_, at) => at % 2 === 0), y: values.filter((_, at) => at % 2 === 1) };
  }

  /** The neighbours of a row that Python found. */
  function known({ near, cosines }, row) {
    const [rows, values] = [near, cosines].map((part) => (part.numbers ??= unpack(part)));
    const k = data.neighbours;
    return Array.from(rows.subarray(row * k, (row + 1) * k), (other, at) => ({ row: other, cosine: values[row * k + at] }));
  }

  function search() {
    before = nearest(read(layer()), layer().z, state.chosen);
    after = measured().near ? known(measured(), state.chosen) : nearest(layer(), y, state.chosen);
  }

  // ---- The map ----

  const model = (id) => Bokeh.documents[0].get_model_by_name(id);
  const visible = (row) => !state.hidden.has(language[row]);

  function drawPoints() {
    const rows = [...texts.keys()];
    const shown = (values) => Array.from(values, (value, row) => (visible(row) ? value : NaN));
    model("points").data = {
      x: shown(place.x), y: shown(place.y), colour: rows.map((row) => looks[language[row]].colour),
      marker: rows.map((row) => looks[language[row]].marker[0]),
    };
    drawRings();
  }

  function drawRings() {
    const rows = [state.chosen, ...after.map(({ row }) => row)].filter(visible);
    model("rings").data = {
      x: rows.map((row) => place.x[row]), y: rows.map((row) => place.y[row]),
      size: rows.map((row) => (row === state.chosen ? 20 : 12)),
      width: rows.map((row) => (row === state.chosen ? 3.5 : 1.5)),
    };
  }

  /** Shows all visible points, with one unit for both axes. */
  function fit() {
    const rows = [...texts.keys()].filter(visible), spans = [place.x, place.y].map((values) => {
      let low = Infinity, high = -Infinity;
      for (const row of rows) [low, high] = [Math.min(low, values[row]), Math.max(high, values[row])];
      return rows.length ? [low, high] : [-1, 1];
    });
    const box = $("frame").getBoundingClientRect(), sizes = [box.width, box.height];
    const pixel = Math.max(...spans.map(([low, high], axis) => (high - low || 1) / (sizes[axis] - 30)));
    ["x", "y"].forEach((axis, number) => {
      const middle = (spans[number][0] + spans[number][1]) / 2, half = (pixel * sizes[number]) / 2;
      model(axis).setv({ start: middle - half, end: middle + half });
    });
  }

  function zoom(factor) {
    for (const axis of ["x", "y"]) {
      const { start, end } = model(axis), middle = (start + end) / 2, half = ((end - start) / 2) * factor;
      model(axis).setv({ start: middle - half, end: middle + half });
    }
  }

  // ---- Words ----

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  /** A number as text of one digit that is not below it. */
  function upper(number) {
    const unit = 10 ** Math.floor(Math.log10(number || 1e-9));
    return (Math.ceil(number / unit) * unit).toPrecision(1);
  }

  const percent = (share) => `${Math.round(100 * share)}%`;

  function mark(number) {
    const made = element("span", { className: "mark", ariaHidden: "true" }, looks[number].marker[1]);
    made.style.color = looks[number].colour;
    return made;
  }

  const names = new Intl.DisplayNames("en", { type: "language", fallback: "code" });
  const nameOf = (number) => names.of(languages[number]);
  const code = (row) => element("span", { className: "code" }, nameOf(language[row]));
  const sentence = (row) => element("span", { lang: languages[language[row]], dir: "auto" }, texts[row]);

  function entry(row, ...notes) {
    const button = element("button", { type: "button", onclick: () => choose(row) });
    button.append(mark(language[row]), code(row), ...notes, " ", sentence(row));
    button.dataset.row = row;
    return element("li", {}, button);
  }

  function neighbour({ row, cosine }) {
    const notes = [element("span", { className: "small" }, ` ${cosine.toFixed(3)}`)];
    if (translates(state.chosen, row)) notes.push(element("span", { className: "translation" }, " ✓ translation"));
    if (same(state.chosen, row)) notes.push(element("span", { className: "same" }, " own language"));
    return entry(row, ...notes);
  }

  function writeSentence() {
    const row = state.chosen, size = before.length;
    $("chosen").replaceChildren(mark(language[row]), code(row), " ", sentence(row));
    $("before").replaceChildren(...before.map(neighbour));
    $("after").replaceChildren(...after.map(neighbour));
    $("after-title").textContent = `Nearest after ${named()}`;
    const ours = (list) => list.filter((each) => same(row, each.row)).length;
    const found = (list) => list.filter((each) => translates(row, each.row)).length;
    const known = texts.reduce((sum, _, other) => sum + translates(row, other), 0);
    let line = `${ours(before)} of ${size} in its own language; ${ours(after)} of ${size} after.`;
    const most = Math.min(known, size);
    if (known) line += ` Translations: ${found(before)} of ${most}; ${found(after)} of ${most} after.`;
    $("verdict").textContent = line;
  }

  function writeShares() {
    const first = layer().before, now = measured();
    let line = `Of the ${data.neighbours} nearest to each sentence, ${percent(first.same)} are in its own language ` +
      `before, ${percent(now.same)} after ${named()}; without preference it would be ${percent(data.expected)}.`;
    if (first.found !== null) {
      line += ` Translations found among them: ${percent(first.found)} before, ${percent(now.found)} after.`;
    }
    $("shares").textContent = line;
    const rank = slides() ? ` --rank ${state.rank}` : "", removes = !slides() || state.rank > 0;
    $("use").hidden = !removes;
    const input = layer().name ? `--encoder ENCODER --layer ${layer().name} --data de=de.txt ...` : "--data de=de.npy ...";
    $("command").textContent = `lsar-jax fit ${method().name} ${method().name}.safetensors${rank} ${input}`;
    $("map-note").textContent = state.tsne
      ? "t-SNE, drawn for rank 0 and for the highest rank only; distances between groups mean little."
      : `A linear projection with ${percent(now.variance)} of the variance; neighbours are computed in all dimensions. ` +
        "Rings: the chosen sentence, and its nearest after. Drag to move, Ctrl and the wheel to zoom.";
    $("map").ariaLabel = `Map of ${count} sentences in ${languages.length} languages after ${named()}. ` +
      "Sentences can be chosen in the list named Choose another.";
  }

  /** Draws how the shares change with the rank. */
  function drawCurve() {
    $("curve").toggleAttribute("hidden", !slides());
    $("curve-note").hidden = !slides();
    if (!slides()) return;
    const { states, top } = method(), x = (rank) => 4 + (312 * rank) / top, height = (share) => 56 - 52 * share;
    const draw = (tag, properties) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
      return made;
    };
    const line = (key, more) => draw("polyline", {
      points: states.map((each, rank) => `${x(rank)},${height(each[key])}`).join(" "),
      fill: "none", stroke: "currentColor", "stroke-width": 2, "vector-effect": "non-scaling-stroke", ...more,
    });
    const at = x(state.rank), lines = [line("same", {})];
    if (states[0].found !== null) lines.push(line("found", { class: "found", "stroke-dasharray": "6 4" }));
    lines.push(draw("line", { x1: at, x2: at, y1: 0, y2: 60, class: "now", "vector-effect": "non-scaling-stroke" }));
    $("curve").replaceChildren(...lines);
    $("top").textContent = top;
    $("curve").setAttribute("aria-label", `Share of neighbours in the own language by rank, from 0 to ${top}: ` +
      states.map((each) => percent(each.same)).join(", "));
  }

  function writeList() {
    const text = $("find").value.trim().toLowerCase(), most = 50, found = [];
    for (let row = 0; row < count; row++) {
      const inside = texts[row].toLowerCase().includes(text) || [languages[language[row]], nameOf(language[row]).toLowerCase()].includes(text);
      if (inside && visible(row)) found.push(row);
    }
    $("list").replaceChildren(...found.slice(0, most).map((row) => entry(row)));
    const part = found.length > most ? `, the first ${most} listed` : "";
    $("list-note").textContent = `${found.length} sentences${part}`;
  }

  // ---- What a user does ----

  function choose(row) {
    // The entry that was chosen is replaced, and the keyboard would be nowhere.
    const inside = [$("before"), $("after")].some((list) => list.contains(document.activeElement));
    state.chosen = row;
    search();
    writeSentence();
    drawRings();
    if (inside) $("chosen").focus();
  }

  function update() {
    compute();
    search();
    drawPoints();
    fit();
    writeSentence();
    writeShares();
    drawCurve();
  }

  function changeMethod() {
    $("rank").disabled = !slides();
    $("rank").max = slides() ? method().top : 0;
    state.rank = slides() ? method().top : 0;
    changeRank(state.rank);
  }

  function changeRank(rank) {
    state.rank = rank;
    $("rank").value = rank;
    $("rank-value").textContent = slides() ? `${rank} of ${method().top}` : "none";
    update();
  }

  function toggle(number, hide) {
    state.hidden[hide ? "add" : "delete"](number);
    $("legend").children[number].ariaPressed = String(!hide);
  }

  function redraw() {
    drawPoints();
    writeList();
  }

  /** Shows the sentences at the pointer; Bokeh calls it. */
  function hover({ index, geometry }) {
    const rows = index.indices.slice(0, 3), tip = $("tip"), frame = $("frame").getBoundingClientRect();
    tip.hidden = !rows.length;
    if (!rows.length) return;
    tip.replaceChildren(...rows.map((row) => element("div", {}, mark(language[row]), code(row), " ", sentence(row))));
    if (index.indices.length > 3) tip.append(`and ${index.indices.length - 3} more`);
    const left = Math.min(geometry.sx + 12, frame.width - tip.offsetWidth), above = geometry.sy - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above < 0 ? geometry.sy + 12 : above}px`;
  }

  /** Chooses the sentence that was clicked; Bokeh calls it. */
  const tap = (rows) => rows.length && choose(rows[0]);

  async function begin() {
    const options = (id, names) => $(id).replaceChildren(...names.map((text, value) => new Option(text, value)));
    options("layer", data.layers.map(({ name }) => name || "given"));
    options("method", layer().methods.map(({ name }) => name));
    options("projection", layer().tsne.length ? ["linear", "t-SNE"] : ["linear"]);
    $("legend").replaceChildren(...languages.map((_, number) => {
      const button = element("button", { type: "button", ariaPressed: "true" }, mark(number), nameOf(number));
      button.onclick = () => { toggle(number, !state.hidden.has(number)); redraw(); };
      return button;
    }));
    const lowest = Math.min(...data.layers.map(({ agreement }) => agreement));
    const largest = Math.max(...data.layers.map(({ difference }) => difference));
    const widths = [...new Set(data.layers.map(({ width, dim, values }) =>
      `${width} of ${dim} dimensions of ${8 * KINDS[values.kind].BYTES_PER_ELEMENT} bits`))].join(", ");
    $("about").textContent = `${count} sentences, drawn from those that the methods were fitted on, which flatters ` +
      "high ranks. The shares over all sentences are those of whole vectors. The neighbours of a sentence " +
      `before, and after what only subtracts, are computed here, in ${widths}: measured on ${data.compared} sentences, cosines differ by at most ${upper(largest)} from ` +
      `those of whole vectors, and in every setting ${Math.floor(100 * lowest)}% or more of the neighbours ` +
      "are the same.";
    await Bokeh.embed.embed_item(JSON.parse($("figure").textContent), "map");
    $("layer").onchange = () => { state.layer = Number($("layer").value); changeMethod(); };
    $("method").onchange = () => { state.method = Number($("method").value); changeMethod(); };
    $("projection").onchange = () => { state.tsne = $("projection").value === "1"; update(); };
    $("rank").oninput = () => changeRank(Number($("rank").value));
    $("find").oninput = writeList;
    $("any").onclick = () => choose(Math.floor(Math.random() * count));
    $("closer").onclick = () => zoom(1 / 1.5);
    $("farther").onclick = () => zoom(1.5);
    $("whole").onclick = fit;
    $("all").onclick = () => { languages.forEach((_, number) => toggle(number, false)); redraw(); };
    $("none").onclick = () => { languages.forEach((_, number) => toggle(number, true)); redraw(); };
    $("controls").onsubmit = (event) => event.preventDefault();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const colour = () => { model("ring").glyph.line_color = dark.matches ? "#ffffff" : "#000000"; };
    dark.onchange = colour;
    colour();
    changeMethod();
    writeList();
    document.body.dataset.ready = "true";
  }

  begin();
  return { hover, tap };
})();
