"use strict";
/* What all pages do: names of languages in place of their codes, and buttons that copy. */
const displayed = new Intl.DisplayNames("en", { type: "language", fallback: "code" });
function languageName(code) {
  try { return displayed.of(code); } catch { return code; /* a group that is not a language */ }
}

function copy(id) {
  getSelection().selectAllChildren(document.getElementById(id)); // a browser may refuse the next line
  navigator.clipboard?.writeText(document.getElementById(id).textContent).catch(() => {});
}

for (const code of document.querySelectorAll("[data-code]")) {
  code.textContent = languageName(code.dataset.code);
}
for (const button of document.querySelectorAll("[data-copies]")) button.onclick = () => copy(button.dataset.copies);

/* The explorer: Python has found the neighbours, their shares and the maps of each layer, method and rank; the page
   shows those that are chosen. */
const explorer = document.getElementById("data") && (() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { languages, language, texts, unit, looks, k } = data;
  const count = texts.length, rows = [...texts.keys()];
  // Characters of a sentence in a list, and entries of the list to choose from.
  const SHORT = 70, LISTED = 8;
  const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
  const state = { layer: 0, method: 0, step: 0, tsne: false, hidden: new Set() };
  // English, which a reader of the page knows, if there is any.
  state.chosen = Math.max(0, language.indexOf(languages.indexOf("en")));

  const layer = () => data.layers[state.layer];
  const method = () => layer().methods[state.method];
  const slides = () => method().ranks !== null;
  const rank = () => method().ranks[state.step];
  const at = () => method().first + (slides() ? state.step : 0);
  const now = () => layer().states[at()];
  const named = () => (slides() ? `${method().name}, rank ${rank()}` : method().name);
  const same = (a, b) => language[a] === language[b];
  const translates = (a, b) => unit !== null && unit[a] === unit[b] && !same(a, b);
  const visible = (row) => !state.hidden.has(language[row]);

  /** The whole numbers that Python packed. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const numbers = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Int16Array(await new Response(numbers).arrayBuffer());
  }

  /** The neighbours of a sentence, the nearest first. */
  function neighbours(row, number) {
    const { near, cosines, states } = layer(), start = (row * states.length + number) * k;
    const list = (all) => [...all.subarray(start, start + k)];
    return list(near).map((other, place) => ({ row: other & 0xffff, cosine: list(cosines)[place] / 100 }));
  }

  /** The places of all sentences on the map. */
  function places() {
    const drawn = slides() && rank() === 0 ? 0 : 1 + state.method;
    const [all, number] = state.tsne ? [layer().tsne, drawn] : [layer().planes, at()];
    const values = all.subarray(2 * count * number, 2 * count * (number + 1));
    return { x: rows.map((row) => values[2 * row]), y: rows.map((row) => values[2 * row + 1]) };
  }

  let place, before, after;

  // ---- The map ----

  const model = (id) => Bokeh.documents[0].get_model_by_name(id);

  function drawPoints() {
    const shown = (values) => values.map((value, row) => (visible(row) ? value : NaN));
    model("points").data = {
      x: shown(place.x), y: shown(place.y), colour: rows.map((row) => looks[language[row]].colour),
      marker: rows.map((row) => looks[language[row]].marker[0]),
    };
    drawRings();
  }

  function drawRings() {
    const ringed = [state.chosen, ...after.map(({ row }) => row)].filter(visible);
    const own = (values) => ringed.map((row) => values[Number(row === state.chosen)]);
    model("rings").data = {
      x: ringed.map((row) => place.x[row]), y: ringed.map((row) => place.y[row]), size: own([12, 20]),
      width: own([1.5, 3.5]),
    };
  }

  /** Shows all visible points, with one unit for both axes. */
  function fit() {
    const spans = [place.x, place.y].map((values) => {
      const shown = values.filter((_, row) => visible(row));
      return shown.length ? [Math.min(...shown), Math.max(...shown)] : [-1, 1];
    });
    const box = $("frame").getBoundingClientRect(), sizes = [box.width, box.height];
    const pixel = Math.max(...spans.map(([low, high], axis) => (high - low || 1) / (sizes[axis] - 30)));
    spans.forEach(([low, high], axis) => show("xy"[axis], (low + high) / 2, (pixel * sizes[axis]) / 2));
  }

  const show = (axis, middle, half) => model(axis).setv({ start: middle - half, end: middle + half });

  function zoom(factor) {
    for (const axis of "xy") {
      const { start, end } = model(axis);
      show(axis, (start + end) / 2, ((end - start) / 2) * factor);
    }
  }

  // ---- Words ----

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)}%`);
  const nameOf = (number) => languageName(languages[number]);
  const label = (row) => element("span", { className: "code" }, mark(language[row]), nameOf(language[row]));
  const sentence = (row, text = texts[row]) => element("span", { lang: languages[language[row]], dir: "auto" }, text);
  const note = (className, text) => element("span", { className }, text);

  function mark(number) {
    const made = element("span", { className: "mark", ariaHidden: "true" }, looks[number].marker[1]);
    made.style.color = looks[number].colour;
    return made;
  }

  /** A sentence in a list. It is cut here: a browser cuts some right-to-left text without an ellipsis. */
  function entry(row, ...notes) {
    const letters = Array.from(graphemes.segment(texts[row]), ({ segment }) => segment);
    const text = letters.length > SHORT ? `${letters.slice(0, SHORT - 1).join("").trimEnd()}…` : texts[row];
    const button = element("button", { type: "button", onclick: () => choose(row) });
    button.append(label(row), ...notes, " ", sentence(row, text));
    button.dataset.row = row;
    return element("li", {}, button);
  }

  function neighbour({ row, cosine }) {
    const notes = [note("small", ` ${cosine.toFixed(2)}`)];
    if (translates(state.chosen, row)) notes.push(note("right", " ✓ translation"));
    if (same(state.chosen, row)) notes.push(note("same", " own language"));
    return entry(row, ...notes);
  }

  function writeSentence() {
    const row = state.chosen;
    $("chosen").replaceChildren(label(row), " ", sentence(row));
    $("before").replaceChildren(...before.map(neighbour));
    $("after").replaceChildren(...after.map(neighbour));
    $("after-title").textContent = `Nearest after ${named()}`;
    const ours = (list) => list.filter((each) => same(row, each.row)).length;
    const known = rows.filter((other) => translates(row, other)), most = Math.min(known.length, k);
    const lacking = (list) => known.filter((other) => !list.some((each) => each.row === other));
    const [first, then] = [lacking(before), lacking(after)];
    const found = ` Translations: ${known.length - first.length} of ${most} before, ${known.length - then.length} after.`;
    $("verdict").textContent = `${ours(before)} of ${k} in its own language before, ${ours(after)} after.` +
      (known.length ? found : "");
    const list = (others) => others.map((other) => nameOf(language[other])).join(", ") || "none";
    $("missing").hidden = known.length !== most || (!first.length && !then.length);
    $("missing").textContent = `Not among the ${k} before: ${list(first)}; after: ${list(then)}.`;
  }

  function writeShares() {
    const first = layer().states[0], after = now();
    const parts = [
      `Neighbours in the own language: ${percent(first.own)} before, ${percent(after.own)} after (fair: ${percent(data.fair)})`,
    ];
    if (first.found !== null) {
      parts.push(`Translations among the ${k} nearest: ${percent(first.found)} before, ${percent(after.found)} after`);
    }
    $("shares").replaceChildren(
      ...parts.map((text) => element("span", {}, text)), note("small", "measured on the text it was fitted on"),
    );
    const front = (key) => method().strengths.map((of) => percent(of[key])).join(", ");
    $("strengths").textContent = `In part, at strengths 0, ¼, ½, ¾ and 1${slides() ? " of the highest rank" : ""}: ` +
      `own language ${front("own")}` + (first.found === null ? "." : `; translations ${front("found")}.`);
    $("words").textContent = data.summaries[method().name] + (slides() ? " At rank 0, none is removed." : "");
    $("map-note").textContent = state.tsne
      ? "t-SNE, drawn for rank 0 and for the highest rank only; distances between groups mean little."
      : "The two directions in which the languages differ most or, once they do not, the sentences; these hold " +
        `${percent(after.variance)} of the variance. Neighbours are found in all directions, and need not be near ` +
        "here. Rings: the chosen sentence, and its nearest after.";
    $("map").ariaLabel = `Map of ${count} sentences in ${languages.length} languages after ${named()}. ` +
      "Sentences can be chosen in the list named Choose another.";
    // The shares of all sentences, and of those of each language.
    [...$("legend").children].forEach((line, number) => {
      const share = (of, key) => (number ? of[`${key}_of`][number - 1] : of[key]);
      const keys = first.found === null ? ["own"] : ["own", "found"];
      const cells = keys.flatMap((key) => [first, after].map((of) => element("td", {}, percent(share(of, key)))));
      line.replaceChildren(line.firstChild, ...cells);
    });
  }

  /** The code that fits the method that is chosen, and how to load the result. */
  function writeUse() {
    const { fitting, loading } = data.code[method().name];
    const values = { layer: layer().name, number: state.layer, language: languages[language[state.chosen]] };
    const filled = (text) => Object.entries({ ...values, rank: slides() ? rank() : "" })
      .reduce((code, [name, value]) => code.replaceAll(`{${name}}`, value), text);
    $("use").hidden = slides() && rank() === 0;
    $("command").textContent = filled(fitting);
    for (const [library, code] of Object.entries(loading)) $(`loading-${library}`).textContent = filled(code);
  }

  /** Draws how the shares change with the rank. */
  function drawCurve() {
    $("by-rank").hidden = !slides();
    if (!slides()) return;
    const { ranks, first } = method(), states = layer().states.slice(first, first + ranks.length);
    const top = ranks.at(-1), wide = $("curve").clientWidth, high = 120;
    const x = (rank) => 40 + ((wide - 56) * rank) / top, height = (share) => high - 22 - (high - 32) * share;
    const draw = (tag, properties, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
      made.append(text);
      return made;
    };
    const line = (x1, x2, y1, y2, name) => draw("line", { x1, x2, y1: height(y1), y2: height(y2), class: name });
    const curve = (key, more) => draw("polyline", {
      points: states.map((each, step) => `${x(ranks[step])},${height(each[key])}`).join(" "),
      fill: "none", stroke: "currentColor", "stroke-width": 2, ...more,
    });
    const word = (x, y, anchor, text) => draw("text", { x, y, "text-anchor": anchor }, text);
    const parts = [0, 0.5, 1].flatMap((share) => [
      line(x(0), x(top), share, share, "grid"), word(34, height(share) + 4, "end", percent(share)),
    ]);
    const step = Math.ceil(top / Math.min(top, Math.floor(wide / 40)));
    for (let mark = 0; mark <= top; mark += step) {
      parts.push(word(x(mark), high - 6, "middle", mark ? String(mark) : "rank 0"));
    }
    parts.push(line(x(0), x(top), data.fair, data.fair, "fair"), curve("own", {}));
    if (states[0].found !== null) parts.push(curve("found", { class: "found", "stroke-dasharray": "6 4" }));
    parts.push(line(x(rank()), x(rank()), 1, 0, "now"));
    $("curve").replaceChildren(...parts);
    $("curve").setAttribute("aria-label", `Share of neighbours in the own language by rank, from 0 to ${top}: ` +
      states.map((each) => percent(each.own)).join(", "));
  }

  // The sentences of all languages in a mixed order, the same each time.
  const mixed = [...rows].sort((a, b) => (((a + 1) * 7919) % 10007) - (((b + 1) * 7919) % 10007));

  function writeList() {
    const text = $("find").value.trim().toLowerCase();
    const found = mixed.filter((row) => {
      const names = [languages[language[row]], nameOf(language[row]).toLowerCase()];
      return visible(row) && (texts[row].toLowerCase().includes(text) || names.includes(text));
    });
    $("list").replaceChildren(...found.slice(0, LISTED).map((row) => entry(row)));
    const part = found.length > LISTED ? `; ${LISTED} of them are listed` : "";
    $("list-note").textContent = `${found.length} sentence${found.length === 1 ? "" : "s"}${part}`;
  }

  // ---- What a user does ----

  function search() {
    [before, after] = [0, at()].map((number) => neighbours(state.chosen, number));
  }

  function choose(row) {
    // The entry that was chosen is replaced, and the keyboard would be nowhere.
    const inside = [$("before"), $("after")].some((list) => list.contains(document.activeElement));
    state.chosen = row;
    search();
    writeSentence();
    writeUse();
    drawRings();
    if (inside) $("chosen").focus();
  }

  function update() {
    place = places();
    search();
    drawPoints();
    fit();
    writeSentence();
    writeShares();
    writeUse();
    drawCurve();
  }

  /** The lowest rank that finds nearly as many translations as the best, or is nearly as close to the fair share. */
  function lowest({ ranks, first }) {
    const scores = layer().states.slice(first, first + ranks.length)
      .map(({ own, found }) => found ?? -Math.max(own, data.fair));
    return scores.findIndex((score) => score >= Math.max(...scores) - 0.01);
  }

  /** Opens the page at what the report beside it recommends, or at what is nearest to that, and says so. */
  function openPage() {
    changeMethod();
    if (!data.recommended) return;
    const { layer: number, transform: wanted, parameters, known } = data.recommended;
    const name = layer().name && String(number); // vectors have no layer
    const at = (of) => (of ? `layer ${of}, ` : "");
    const setting = () => at(layer().name) + named(), alone = setting();
    const own = `${alone}${slides() ? ": the lowest rank within a point of the best" : ""}.`;
    const values = Object.entries(parameters).map(([key, value]) => ` ${key}=${value}`).join("");
    const parts = [`The report beside this page recommends ${at(name)}${wanted}${values}, on held-out text.`];
    const places = [data.layers.findIndex((of) => of.name === name), layer().methods.findIndex((of) => of.name === wanted)];
    if (places.includes(-1)) {
      const option = places[0] < 0 ? `--layers ${name}` : `--transforms ${wanted}`;
      const add = known ? `add it by ${option}` : "this page has only the library's maps";
      parts.push(`It is not on this page; ${add}. The page opens at ${own}`);
    } else {
      [state.layer, state.method] = [$("layer").value, $("method").value] = places;
      changeMethod();
      const far = slides() ? method().ranks.map((each) => Math.abs(each - parameters.rank)) : [0];
      if (slides()) changeRank(far.indexOf(Math.min(...far)));
      const part = "strength" in parameters || Math.min(...far) > 0 ||
        (!slides() && "rank" in parameters && method().options.rank !== parameters.rank);
      parts.push(part ? `The page opens at the nearest that it has, ${setting()}.` : "The page opens there.");
      if (setting() !== alone) parts.push(`Without the report, it would open at ${own}`);
    }
    $("opening").textContent = parts.join(" ");
  }

  function changeMethod() {
    $("rank").disabled = $("slider").hidden = !slides();
    $("rank").max = slides() ? method().ranks.length - 1 : 0;
    changeRank(slides() ? lowest(method()) : 0);
  }

  function changeRank(step) {
    state.step = step;
    $("rank").value = step;
    $("rank-value").textContent = slides() ? `${rank()} of ${method().ranks.at(-1)}` : "none";
    $("rank").setAttribute("aria-valuetext", $("rank-value").textContent);
    update();
  }

  function hide(numbers, hidden) {
    for (const number of numbers) {
      state.hidden[hidden ? "add" : "delete"](number);
      $("legend").children[number + 1].querySelector("button").ariaPressed = String(!hidden);
    }
    drawPoints();
    writeList();
  }

  /** Shows the sentences at the pointer; Bokeh calls it. */
  function hover({ index, geometry }) {
    const near = index.indices.slice(0, 3), tip = $("tip"), frame = $("frame").getBoundingClientRect();
    tip.hidden = !near.length;
    if (!near.length) return;
    tip.replaceChildren(...near.map((row) => element("div", {}, label(row), " ", sentence(row))));
    if (index.indices.length > 3) tip.append(`and ${index.indices.length - 3} more`);
    const left = Math.min(geometry.sx + 12, frame.width - tip.offsetWidth), above = geometry.sy - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above < 0 ? geometry.sy + 12 : above}px`;
  }

  /** Chooses the sentence that was clicked; Bokeh calls it. */
  const tap = (near) => near.length && choose(near[0]);

  /** Leaves out of the order of Tab what has no name: Bokeh's canvas, whose sentences the lists have. */
  function unreachable(root) {
    for (const part of root.querySelectorAll("*")) {
      if (part.tabIndex >= 0) part.tabIndex = -1;
      if (part.shadowRoot) unreachable(part.shadowRoot);
    }
  }

  function listen() {
    const chooses = (id, change) => { $(id).onchange = () => change(Number($(id).value)); };
    chooses("layer", (number) => { state.layer = number; changeMethod(); });
    chooses("method", (number) => { state.method = number; changeMethod(); });
    chooses("projection", (number) => { state.tsne = number === 1; update(); });
    $("rank").oninput = () => changeRank(Number($("rank").value));
    $("find").oninput = writeList;
    $("any").onclick = () => choose(Math.floor(Math.random() * count));
    $("closer").onclick = () => zoom(1 / 1.5);
    $("farther").onclick = () => zoom(1.5);
    $("whole").onclick = fit;
    $("all").onclick = () => hide(languages.keys(), false);
    $("none").onclick = () => hide(languages.keys(), true);
    for (const button of $("sides").children) {
      button.onclick = () => {
        $("lists").dataset.side = button.dataset.side;
        for (const other of $("sides").children) other.ariaPressed = String(other === button);
      };
    }
    window.onresize = drawCurve;
    $("controls").onsubmit = (event) => event.preventDefault();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.onchange = () => {
      model("ring").glyph.line_color = dark.matches ? "#ffffff" : "#000000";
      model("marks").glyph.line_color = dark.matches ? "#15171b" : "#ffffff";
    };
    dark.onchange();
  }

  async function begin() {
    for (const of of data.layers) {
      for (const part of ["near", "cosines", "planes", "tsne"]) of[part] = of[part] && await unpack(of[part]);
    }
    const options = (id, texts) => $(id).replaceChildren(...texts.map((text, value) => new Option(text, value)));
    options("layer", data.layers.map(({ name }) => name || "given"));
    options("method", layer().methods.map(({ name }) => name));
    options("projection", ["linear", "t-SNE"]);
    $("projection").parentNode.hidden = !layer().tsne;
    $("layer").parentNode.hidden = data.layers.length === 1 && !layer().name;
    for (const part of document.querySelectorAll(".of-found")) part.hidden = layer().states[0].found === null;
    const line = (...children) => element("tr", {}, element("th", { scope: "row" }, ...children));
    $("legend").replaceChildren(line("All"), ...languages.map((_, number) => {
      const button = element("button", { type: "button", ariaPressed: "true" }, mark(number), nameOf(number));
      button.onclick = () => hide([number], !state.hidden.has(number));
      return line(button);
    }));
    await Bokeh.embed.embed_item(JSON.parse($("figure").textContent), "map");
    unreachable($("map"));
    listen();
    openPage();
    writeList();
    document.body.dataset.ready = "true";
  }

  begin();
  return { hover, tap };
})();
