// The facts of a selected layer: a column for each network that has the layer, and its distributions.

const figures = new Map();
let asked = 0;

/** Shows a row's layer beside the graph. */
async function describe(row, target) {
  const mine = ++asked; // a later call may overtake one that waits for bokeh
  if (row === null) {
    target.replaceChildren(element("p", { class: "note" }, "Select a layer in the graph, in a table or in a plot: its numbers, its distributions and the decision about it appear here."));
    return;
  }
  const slots = networks.map((network, slot) => slot).filter((slot) => layerOf(row, slot));
  const layers = slots.map((slot) => layerOf(row, slot));
  const [first] = layers;
  const shown = (title, text) => [title, layers.map(text)];
  const some = (entry) => entry[1].some((text) => text !== null && text !== undefined && text !== "–");
  const lines = [
    shown("result", (l) => `${shape(l.result.shape)} ${l.result.type}`),
    shown("scale", (l) => stored(l.result)),
    shown("range stored", (l) => (l.result.quantized ? `[${digits(l.result.low)}, ${digits(l.result.high)}]` : null)),
    shown("values beyond it", (l) => tiny(l.result.beyond)),
    shown("own SQNR", (l) => errorText(l.errors?.own, l.errors?.own_cosine)),
    shown("whole SQNR", (l) => errorText(l.errors?.whole, l.errors?.whole_cosine)),
    shown("weights", (l) => (l.weights ? `${shape(l.weights.shape)} ${l.weights.type}, ${bytes(l.counts.weight_bytes)} with bias` : null)),
    shown("scale of weights", (l) => (l.weights ? stored(l.weights) : null)),
    shown("MACs", (l) => (l.counts.macs ? whole(l.counts.macs) : null)),
    shown("reads, writes", (l) => `${bytes(l.counts.read)}, ${bytes(l.counts.written)}`),
    shown("time", (l) => seconds(l.seconds)),
    shown("cycles", (l) => (l.device ? whole(l.device.cycles) : null)),
    shown("bound", (l) => (l.device ? `${whole(l.device.bound)} by ${l.device.bound_by || "nothing"}` : null)),
    shown("computed with", (l) => l.device?.fused || null),
    ...[...new Set(layers.flatMap((l) => Object.keys(l.attributes)))].map((key) => shown(key.replace(/_/g, " "), (l) => l.attributes[key])),
  ].filter(some);
  const heads = slots.map((slot) => element("th", { scope: "col" }, element("span", { class: "swatch", style: `background:${data.colours[slot]}` }), networks[slot].name));
  const table = element("table", {},
    networks.length > 1 ? element("thead", {}, element("tr", {}, element("th"), ...heads)) : null,
    element("tbody", {}, ...lines.map(([title, texts]) =>
      element("tr", {}, element("th", { scope: "row" }, title), ...texts.map((text) => element("td", {}, text ?? "–"))))));
  const reasons = slots.filter((slot) => layerOf(row, slot).decision).map((slot) => {
    const { decision, remedy } = layerOf(row, slot);
    const name = quantizedSlots.length > 1 ? `${networks[slot].name}: ` : "";
    return element("p", { class: "reason" }, element("b", {}, `${name}${decision.outcome}. `), sentence(decision.reason),
      remedy ? element("span", {}, ` To change it: ${remedy}.`) : null);
  });
  const others = first.names.filter((name) => name !== first.name);
  target.replaceChildren(
    element("h3", {}, first.name),
    element("p", { class: "kind" }, kind(first.operation) + (others.length ? ` · ${others.map((n) => shortened(n, 60)).join(", ")}` : "")),
    ...reasons);
  for (const slot of slots.filter((each) => networks[each].quantized || !layers.some((l) => l.result.quantized))) {
    const layer = layerOf(row, slot);
    const label = networks.length > 1 ? ` – ${networks[slot].name}` : "";
    if (layer.result.histogram) await distribution(target, slot, "values", layer.result, `Values of the result${label}`);
    if (layer.weights?.histogram && mine === asked) await distribution(target, slot, "weights", layer.weights, `Weights${label}`);
    if (mine !== asked) return;
  }
  target.append(element("h4", {}, "Numbers"), table);
  if (!layers.some((l) => l.result.histogram) && data.missing.histograms) target.append(element("p", { class: "note" }, data.missing.histograms));
}

/** Adds a distribution; figures are made once and kept. */
async function distribution(target, slot, kind, tensor, title) {
  const key = `${slot} ${kind}`;
  const holder = figures.get(key)?.holder ?? element("div", { class: "drawn" });
  const ends = tensor.quantized && kind === "values" ? " · dashed: what the integers can represent" : "";
  target.append(element("h4", {}, title + ends), holder);
  if (!figures.has(key)) figures.set(key, { holder, figure: plot(data.histograms[slot][kind], holder) });
  fill(await figures.get(key).figure, tensor);
}

function stored(tensor) {
  if (!tensor.quantized) return null;
  const axis = tensor.axis === null ? "" : `, ${tensor.channels} along axis ${tensor.axis}`;
  const point = tensor.points.some((each) => each !== 0) ? `, zero point ${span(tensor.points, String)}` : "";
  return `${span(tensor.scales, digits)}${axis}${point}`;
}

function errorText(sqnr, cosine) {
  if (sqnr === null || sqnr === undefined) return "–";
  return `${decibels(sqnr)}, cosine ${cosine.toFixed(6)}`;
}

const sentence = (text) => (text ? `${/^.\d/.test(text) ? text[0] : text[0].toUpperCase()}${text.slice(1)}.` : "");
