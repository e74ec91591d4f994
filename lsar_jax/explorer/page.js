"use strict";
/* The page computes with coordinates z of the sentences, as lsar_jax/explorer/space.py says: a step of a method is
   y = z - s - D B^T (z - s) + o, the map is a linear projection of y, and neighbours are those with the largest cosine,
   in which the length of what is outside the coordinates counts too. */
const explorer = (() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { languages, language, texts, unit, looks } = data;
  const count = texts.length;
  // Characters of a sentence in a list, and entries of the list to choose from.
  const SHORT = 70, LISTED = 8;
  const state = { layer: 0, method: 0, rank: 0, tsne: false, hidden: new Set() };
  // English, which a reader of the page knows, if there is any.
  state.chosen = Math.max(0, language.indexOf(languages.indexOf("en")));
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
  function known(state, row) {
    const [rows, values] = [state.near, state.cosines].map((part) => (part.numbers ??= unpack(part)));
    const k = data.neighbours;
    const near = rows.subarray(row * k, (row + 1) * k);
    return Array.from(near, (other, at) => ({ row: other, cosine: values[row * k + at] }));
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
  const name = (row) => element("span", { className: "code" }, mark(language[row]), nameOf(language[row]));
  const sentence = (row, text = texts[row]) => element("span", { lang: languages[language[row]], dir: "auto" }, text);

  /** The beginning of a sentence. It is cut here: a browser cuts some right-to-left text without an ellipsis. */
  function beginning(row) {
    const characters = [...texts[row]];
    return characters.length > SHORT ? `${characters.slice(0, SHORT - 1).join("").trimEnd()}…` : texts[row];
  }

  function entry(row, ...notes) {
    const button = element("button", { type: "button", onclick: () => choose(row) });
    button.append(name(row), ...notes, " ", sentence(row, beginning(row)));
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
    $("chosen").replaceChildren(name(row), " ", sentence(row));
    $("before").replaceChildren(...before.map(neighbour));
    $("after").replaceChildren(...after.map(neighbour));
    $("after-title").textContent = `Nearest after ${named()}`;
    const ours = (list) => list.filter((each) => same(row, each.row)).length;
    const known = [...texts.keys()].filter((other) => translates(row, other));
    const lacking = (list) => known.filter((other) => !list.some((each) => each.row === other));
    const [first, then] = [lacking(before), lacking(after)], most = Math.min(known.length, size);
    let line = `${ours(before)} of ${size} in its own language before, ${ours(after)} after.`;
    if (known.length) {
      line += ` Translations: ${known.length - first.length} of ${most} before, ${known.length - then.length} after.`;
    }
    $("verdict").textContent = line;
    const list = (rows) => rows.map((other) => nameOf(language[other])).join(", ") || "none";
    $("missing").hidden = known.length !== most || !first.length && !then.length;
    $("missing").textContent = `Not among the ${size} before: ${list(first)}; after: ${list(then)}.`;
  }

  function writeShares() {
    const first = layer().before, now = measured(), translated = first.found !== null;
    const part = (text) => element("span", {}, text), fair = percent(data.expected);
    $("shares").replaceChildren(
      part(`Neighbours in the own language: ${percent(first.same)} before, ${percent(now.same)} after (fair: ${fair})`),
      ...(translated ? [part(`Translations among the ${data.neighbours} nearest: ${percent(first.found)} before, ${percent(now.found)} after`)] : []),
      element("span", { className: "small" }, "measured on the text it was fitted on"),
    );
    const below = translated && now.same < data.expected
      ? " Below fair is not a fault: translations, which are in other languages, take the places." : "";
    $("caveat").textContent = `Counted among the ${data.neighbours} nearest to each of the ${count} sentences. Fair ` +
      `is the share if language meant nothing.${below} On new text, expect fewer translations and more neighbours in the own language, above all at high ranks` +
      (slides() ? ": so the page opens at the lowest rank within a point of the best" : "") +
      ". python -m eval bias compares layers, methods and ranks on text held out, and may choose others.";
    $("words").textContent = data.words[method().name] + (slides() ? " At rank 0, none is removed." : "");
    $("map-note").textContent = state.tsne
      ? "t-SNE, drawn for rank 0 and for the highest rank only; distances between groups mean little."
      : "The two directions in which the languages differ most or, once they do not, the sentences; these hold " +
        `${percent(now.variance)} of the variance. Neighbours are found in all directions, and need not be near ` +
        "here. Rings: the chosen sentence, and its nearest after.";
    $("map").ariaLabel = `Map of ${count} sentences in ${languages.length} languages after ${named()}. ` +
      "Sentences can be chosen in the list named Choose another.";
    writeTable(first, now);
    writeUse();
  }

  /** The shares of all sentences, and of those of each language. */
  function writeTable(first, now) {
    const text = (share) => (share === null ? "–" : percent(share));
    [...$("legend").children].forEach((row, at) => {
      const of = (state, key) => (at ? state[`${key}_of`][at - 1] : state[key]);
      const shares = first.found === null ? ["same"] : ["same", "found"];
      const cells = shares.flatMap((key) => [first, now].map((state) => element("td", {}, text(of(state, key)))));
      row.replaceChildren(row.firstChild, ...cells);
    });
  }

  /** The command or the Python that fits the method that is chosen, and how to load the result. */
  function writeUse() {
    const { name, by_language } = method(), file = `${name}.safetensors`, removes = !slides() || state.rank > 0;
    $("use").hidden = !removes;
    const options = Object.entries(slides() ? { rank: state.rank } : method().options), depth = layer().name;
    const filled = (code) => code.replaceAll("{layer}", depth);
    $("where").textContent = data.fit ? "in a terminal" : "in Python";
    if (data.fit) {
      const given = [...options, ...(depth ? [["layer", depth]] : [])].map(([key, value]) => ` --${key} ${value}`);
      const words = `lsar-jax fit ${name} ${file}${given.join("")} ${data.fit}`.split(" ");
      // A browser would end a line inside of --data.
      $("command").replaceChildren(...words.flatMap((word) => [element("span", {}, word), " "]).slice(0, -1));
    } else {
      const given = options.map(([key, value]) => `, ${key}=${value}`), at = state.layer;
      const lines = data.reading ? [filled(data.reading)] : ["import lsar_jax as lj", "", "# x as given to lj.explore"];
      if (!data.reading && data.opening) lines.push(`encoder = ${filled(data.opening)}`);
      if (!data.reading && data.stacked) lines.push(`x = {code: rows[${at}] for code, rows in x.items()}`);
      if (data.opening) given.push(", source=encoder.spec");
      lines.push(`transform = lj.transforms.methods.METHODS["${name}"](x${given.join("")})`);
      lines.push(`transform.save("${file}")`);
      $("command").textContent = lines.join("\n");
    }
    const code = languages[language[state.chosen]];
    const lines = ["import lsar_jax as lj", "", `transform = lj.Transform.load("${file}")`];
    if (data.opening) {
      const inside = [data.encode.replace("{language}", `"${code}"`)].filter(Boolean);
      if (by_language && !data.encode.includes("{language}")) inside.push(`language="${code}"`);
      const given = ["sentences", "normalize=True", ...inside].join(", ");
      lines.push(`encoder = ${filled(data.opening)}.with_transform(transform)`);
      lines.push(`vectors = encoder.encode(${given})  # for an index of inner products`);
    } else {
      lines.push(`vectors = transform(vectors${by_language ? `, "${code}"` : ""})  # yours, a row for each sentence`);
    }
    $("loading").textContent = lines.join("\n");
  }

  /** Selects the text, which a browser that forbids to copy it lets a user do. */
  function copy(id) {
    getSelection().selectAllChildren($(id));
    navigator.clipboard?.writeText($(id).textContent).catch(() => {});
  }

  /** Draws how the shares change with the rank. */
  function drawCurve() {
    $("by-rank").hidden = !slides();
    if (!slides()) return;
    const { states, top } = method(), wide = $("curve").clientWidth, high = 120;
    const x = (rank) => 40 + ((wide - 56) * rank) / top, height = (share) => high - 22 - (high - 32) * share;
    const draw = (tag, properties, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
      made.append(text);
      return made;
    };
    const across = (share, name) =>
      draw("line", { x1: x(0), x2: x(top), y1: height(share), y2: height(share), class: name });
    const line = (key, more) => draw("polyline", {
      points: states.map((each, rank) => `${x(rank)},${height(each[key])}`).join(" "),
      fill: "none", stroke: "currentColor", "stroke-width": 2, ...more,
    });
    const parts = [0, 0.5, 1].flatMap((share) => [
      across(share, "grid"), draw("text", { x: 34, y: height(share) + 4, "text-anchor": "end" }, percent(share)),
    ]);
    const step = Math.ceil(top / Math.min(top, Math.floor(wide / 40)));
    for (let rank = 0; rank <= top; rank += step) {
      parts.push(draw("text", { x: x(rank), y: high - 6, "text-anchor": "middle" }, rank ? String(rank) : "rank 0"));
    }
    parts.push(across(data.expected, "fair"), line("same", {}));
    if (states[0].found !== null) parts.push(line("found", { class: "found", "stroke-dasharray": "6 4" }));
    parts.push(draw("line", { x1: x(state.rank), x2: x(state.rank), y1: height(1), y2: height(0), class: "now" }));
    $("curve").replaceChildren(...parts);
    $("curve").setAttribute("aria-label", `Share of neighbours in the own language by rank, from 0 to ${top}: ` +
      states.map((each) => percent(each.same)).join(", "));
  }

  // The sentences of all languages in a mixed order, the same each time.
  const mixed = [...texts.keys()].sort((a, b) => (((a + 1) * 7919) % 10007) - (((b + 1) * 7919) % 10007));

  function writeList() {
    const text = $("find").value.trim().toLowerCase(), found = [];
    for (let at = 0; at < count; at++) {
      const row = mixed[at];
      const of = [languages[language[row]], nameOf(language[row]).toLowerCase()];
      if ((texts[row].toLowerCase().includes(text) || of.includes(text)) && visible(row)) found.push(row);
    }
    $("list").replaceChildren(...found.slice(0, LISTED).map((row) => entry(row)));
    const part = found.length > LISTED ? `; ${LISTED} of them are listed` : "";
    $("list-note").textContent = `${found.length} sentence${found.length === 1 ? "" : "s"}${part}`;
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
    $("rank").disabled = $("slider").hidden = !slides();
    $("rank").max = slides() ? method().top : 0;
    changeRank(slides() ? lowest(method()) : 0);
  }

  /** The lowest rank that finds nearly as many translations as the best, or is nearly as close to the fair share. */
  function lowest({ states }) {
    const scores = states.map(({ same, found }) => found ?? -Math.max(same, data.expected)), best = Math.max(...scores);
    return scores.findIndex((score) => score >= best - 0.01);
  }

  function changeRank(rank) {
    state.rank = rank;
    $("rank").value = rank;
    $("rank-value").textContent = slides() ? `${rank} of ${method().top}` : "none";
    update();
  }

  function toggle(number, hide) {
    state.hidden[hide ? "add" : "delete"](number);
    $("legend").children[number + 1].querySelector("button").ariaPressed = String(!hide);
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
    tip.replaceChildren(...rows.map((row) => element("div", {}, name(row), " ", sentence(row))));
    if (index.indices.length > 3) tip.append(`and ${index.indices.length - 3} more`);
    const left = Math.min(geometry.sx + 12, frame.width - tip.offsetWidth), above = geometry.sy - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above < 0 ? geometry.sy + 12 : above}px`;
  }

  /** Chooses the sentence that was clicked; Bokeh calls it. */
  const tap = (rows) => rows.length && choose(rows[0]);

  /** Leaves out of the order of Tab what has no name: Bokeh's canvas, whose sentences the lists have. */
  function unreachable(root) {
    for (const part of root.querySelectorAll("*")) {
      if (part.tabIndex >= 0) part.tabIndex = -1;
      if (part.shadowRoot) unreachable(part.shadowRoot);
    }
  }

  async function begin() {
    const options = (id, names) => $(id).replaceChildren(...names.map((text, value) => new Option(text, value)));
    options("layer", data.layers.map(({ name }) => name || "given"));
    options("method", layer().methods.map(({ name }) => name));
    options("projection", layer().tsne.length ? ["linear", "t-SNE"] : ["linear"]);
    $("projection").parentNode.hidden = !layer().tsne.length;
    $("layer").parentNode.hidden = data.layers.length === 1 && !layer().name;
    const untranslated = layer().before.found === null;
    for (const part of document.querySelectorAll(".of-found")) part.hidden = untranslated;
    const row = (...children) => element("tr", {}, Object.assign(element("th", {}, ...children), { scope: "row" }));
    $("legend").replaceChildren(row("All"), ...languages.map((_, number) => {
      const button = element("button", { type: "button", ariaPressed: "true" }, mark(number), nameOf(number));
      button.onclick = () => { toggle(number, !state.hidden.has(number)); redraw(); };
      return row(button);
    }));
    const alike = Math.min(...data.layers.map(({ agreement }) => agreement));
    const largest = Math.max(...data.layers.map(({ difference }) => difference));
    const kept = [...new Set(data.layers.map(({ width, dim }) => `${width} of ${dim}`))].join(" or ");
    $("about").textContent = `The percentages are exact. To be small, the page keeps ${kept} dimensions of each ` +
      `vector, rounded: measured on ${data.compared} sentences, the cosines in its lists differ by at most ` +
      `${upper(largest)} from exact ones, and ${Math.floor(100 * alike)}% or more of the neighbours are the same at ` +
      "every rank.";
    await Bokeh.embed.embed_item(JSON.parse($("figure").textContent), "map");
    unreachable($("map"));
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
    for (const button of document.querySelectorAll("[data-copies]")) button.onclick = () => copy(button.dataset.copies);
    for (const button of $("sides").children) {
      button.onclick = () => {
        $("lists").dataset.side = button.dataset.side;
        for (const other of $("sides").children) other.ariaPressed = String(other === button);
      };
    }
    window.onresize = drawCurve;
    $("controls").onsubmit = (event) => event.preventDefault();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const colour = () => { 
      model("ring").glyph.line_color = dark.matches ? "#ffffff" : "#000000";
      model("marks").glyph.line_color = dark.matches ? "#161616" : "#ffffff";
    };
    dark.onchange = colour;
    colour();
    changeMethod();
    writeList();
    document.body.dataset.ready = "true";
  }

  begin();
  return { hover, tap };
})();
