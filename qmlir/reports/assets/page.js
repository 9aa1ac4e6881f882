// The page: its parts, and the layer that a reader has selected, which all of them show.

let chosen = null;
let slot = quantizedSlots[0] ?? 0;
let colouring = COLOURINGS[0];
const graph = new Graph(byId("graph"), choose);

/** Selects a row of the page: marks it everywhere and shows its facts. `scroll` brings the graph into view. */
function choose(row, scroll = false) {
  if (data.rows[row].at[slot] === null) {
    slot = data.rows[row].at.findIndex((index) => index !== null);
    showNetwork();
  }
  chosen = row;
  graph.choose(row);
  mark();
  if (scroll) byId("network").scrollIntoView({ behavior: "auto", block: "start" });
  return describe(row, byId("details"));
}

function mark() {
  for (const line of document.querySelectorAll("tr[data-row]")) line.classList.toggle("chosen", Number(line.dataset.row) === chosen);
}

const openRow = (row) => choose(row, true).then(mark);

// -----------------------------------------------------------------------------------------------------------------
// Choices

/** Buttons of which one is pressed. */
function choices(target, options, current, change) {
  const buttons = options.map(([value, title]) =>
    element("button", { type: "button", title, "aria-pressed": String(value === current), onclick: () => press(value) }, title));
  function press(value) {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(options[index][0] === value)));
    change(value);
  }
  target.replaceChildren(...buttons);
  target.hidden = options.length < 2;
}

function showNetwork() {
  choices(byId("shown"), networks.map((network, index) => [index, network.name]), slot, (value) => {
    slot = value;
    graph.show(slot, colouring);
    if (chosen !== null) graph.choose(chosen);
  });
  graph.show(slot, colouring);
}

function showLegend() {
  const legend = byId("legend");
  if (colouring.classes) {
    const used = new Set(networks.flatMap((network) => network.layers.map(colouring.of)));
    legend.replaceChildren(...Object.entries(colouring.classes).filter(([name]) => used.has(name)).map(([name, colour]) =>
      element("span", {}, element("span", { class: "swatch", style: `background:${colour}` }), name)));
    return;
  }
  const [low, high] = colouring.ends ?? ["none", "most"];
  const ramp = element("span", { class: "ramp", style: `background:linear-gradient(90deg, ${colouring.ramp.join(", ")})` });
  legend.replaceChildren(element("span", {}, low, ramp, high), element("span", {}, element("span", { class: "swatch", style: `background:${BLANK}` }), "none"));
}

function setColours() {
  const select = byId("colour");
  select.replaceChildren(...COLOURINGS.map((each) => element("option", { value: each.id }, each.title)));
  select.addEventListener("change", () => {
    colouring = COLOURINGS.find((each) => each.id === select.value);
    graph.colour(colouring);
    showLegend();
  });
}

// -----------------------------------------------------------------------------------------------------------------
// Summary

function summarize() {
  const known = (text) => networks.some((network, index) => text(network, index) !== null);
  const float = networks.find((network) => !network.quantized);
  const figures = [
    ["samples right (top 1)", (n) => n.accuracy && `${share(n.accuracy.top1)} of ${whole(n.accuracy.samples)}`],
    ["label among the first 5", (n) => n.accuracy && n.accuracy.top5 !== null ? share(n.accuracy.top5) : null],
    ["decisions as in float", (n) => n.accuracy && n.accuracy.agreement !== null ? share(n.accuracy.agreement) : null],
    ["SQNR of the outputs", (n) => outputError(n)],
    ["operations quantized", (n) => n.quantized ? `${n.layers.filter(isQuantized).length} of ${n.layers.length}` : null],
    ["MACs a call", (n) => products(n.counts.macs)],
    ["weights", (n) => bytes(n.counts.weight_bytes) + ratio(float?.counts.weight_bytes, n.counts.weight_bytes, n, "smaller")],
    ["scratch memory", (n) => n.timing && bytes(n.timing.arena)],
    ["time of a call", (n) => n.timing && seconds(n.timing.median) + ratio(float?.timing?.median, n.timing.median, n, "faster")],
    ["MACs a second", (n) => n.timing && n.counts.macs ? rate(n) : null],
    ["cycles on the device", (n) => n.run && `${whole(n.run.cycles)} on ${n.run.device}: ${seconds(n.run.cycles / n.run.clock / 1e6)}`],
    ["its MACs used", (n) => n.run && n.run.bound ? `${share(n.run.utilization, 1)}, ${share(n.run.bound, 1)} if nothing waited` : null],
  ].filter(([, text]) => known(text));
  const heads = networks.map((network, index) => element("th", { scope: "col" }, element("span", { class: "swatch", style: `background:${data.colours[index]}` }), network.name));
  byId("summary-table").replaceChildren(
    element("thead", {}, element("tr", {}, element("th"), ...heads)),
    element("tbody", {}, ...figures.map(([title, text]) =>
      element("tr", {}, element("th", { scope: "row" }, title), ...networks.map((network, index) => element("td", {}, text(network, index) ?? "–"))))));
  const parts = [
    data.compared && `Errors are over ${whole(data.compared)} samples.`,
    data.profiled && `Distributions are of ${whole(data.profiled)} samples.`,
    ...["ranges", "accuracy", "errors", "histograms"].map((part) => data.missing[part]),
    `Made by qmlir ${data.version}.`,
  ].filter(Boolean);
  byId("made").textContent = parts.join(" ");
}

/** Whether a layer computes on integers; a network that was quantized elsewhere has no decisions. */
const isQuantized = (layer) => (layer.decision ? layer.decision.outcome === "quantized" : layer.result.quantized);

/** Products in a second, and their share of the peak; the peak of a busy processor is measured too low to say it. */
function rate(network) {
  const value = network.counts.macs / network.timing.median;
  const part = value / Math.max(...networks.map((each) => each.timing?.peak ?? 0));
  return `${Number((value / 1e9).toPrecision(3))} G${part <= 1 ? `, ${share(part, 0)} of one thread's peak` : ""}`;
}

function ratio(before, after, network, word) {
  if (!before || !after || !network.quantized) return "";
  const times = before / after;
  return times >= 1 ? `, ${times.toFixed(1)} times ${word}` : "";
}

function outputError(network) {
  const errors = network.outputs.filter((index) => index >= 0).map((index) => network.layers[index].errors?.whole).filter((value) => value !== undefined && value !== null);
  return errors.length ? decibels(errors.reduce((a, b) => (real(a) < real(b) ? a : b))) : null;
}

// -----------------------------------------------------------------------------------------------------------------
// Tables of layers

const nameColumn = (title) => ({
  title,
  class: "name",
  value: (row) => data.rows[row].name,
  text: (row) => element("button", { type: "button", title: data.rows[row].name, onclick: (event) => { event.stopPropagation(); openRow(row); } }, ...breakable(shortened(data.rows[row].name, 56))),
});
const any = (row) => networks.map((network, index) => layerOf(row, index)).find(Boolean);
const of = (row, index) => layerOf(row, index) ?? {};
const headed = (index, title) => (quantizedSlots.length > 1 ? `${networks[index].name}: ${title}` : title);

function showWorst() {
  const slots = quantizedSlots.filter((index) => networks[index].layers.some((layer) => layer.errors));
  const target = byId("worst-list");
  if (!slots.length) {
    target.replaceChildren(element("p", { class: "missing" }, data.missing.errors ?? "No layer has an SQNR to show."));
    byId("worst-by").hidden = true;
    return;
  }
  const least = (row, what) => Math.min(...slots.map((index) => real(of(row, index).errors?.[what] ?? Infinity)));
  const gauge = (value) => element("span", { class: "gauge", style: `width:${Math.round(4 + 70 * badness(value))}px` });
  const list = (what) => {
    const rows = data.rows.map((row, number) => number).filter((row) => least(row, what) < Infinity)
      .sort((a, b) => least(a, what) - least(b, what)).slice(0, 8);
    const figure = (index, key, title) => ({
      title: headed(index, title), number: true, class: slots.length > 1 && key !== what ? "minor" : null,
      value: (row) => of(row, index).errors?.[key],
      text: (row) => {
        const value = of(row, index).errors?.[key] ?? null;
        return value !== null && key === what ? element("span", {}, decibels(value), " ", gauge(value)) : decibels(value);
      },
    });
    const table = element("table");
    sortable(table, [
      nameColumn("layer"),
      { title: "operation", class: "minor", value: (row) => any(row).operation, text: (row) => kind(any(row).operation) },
      ...slots.flatMap((index) => [figure(index, "own", "own SQNR"), figure(index, "whole", "whole SQNR")]),
    ], { rows, pick: openRow });
    target.replaceChildren(element("div", { class: "scrolled" }, table),
      element("p", { class: "note" }, "SQNR is in dB: the less, the worse. A layer's own SQNR is that of its result if it reads the float network's tensors; its whole SQNR is that in the quantized network."));
    mark();
  };
  choices(byId("worst-by"), [["own", "by own SQNR"], ["whole", "by whole SQNR"]], "own", list);
  list("own");
}

function showLayers() {
  const with_ = (pick) => networks.map((network, index) => index).filter((index) => networks[index].layers.some((layer) => (pick(layer) ?? null) !== null));
  const numbers = (title, slots, pick, text, name = headed) => slots.map((index) => ({
    title: name(index, title), number: true, down: true,
    value: (row) => pick(of(row, index)), text: (row) => text(pick(of(row, index))),
  }));
  const named = (index, title) => (networks.length > 1 ? `${networks[index].name}: ${title}` : title);
  const columns = [
    { title: "#", number: true, value: (row) => row, text: (row) => String(row + 1) },
    nameColumn("layer"),
    { title: "operation", value: (row) => any(row).operation, text: (row) => kind(any(row).operation) },
    ...quantizedSlots.map((index) => ({ title: headed(index, "type"), value: (row) => of(row, index).result?.type, text: (row) => typeText(of(row, index)) })),
    ...numbers("own SQNR", with_((l) => l.errors), (l) => l.errors?.own, decibels).map(upwards),
    ...numbers("whole SQNR", with_((l) => l.errors), (l) => l.errors?.whole, decibels).map(upwards),
    { title: "MACs", number: true, down: true, value: (row) => any(row).counts.macs, text: (row) => products(any(row).counts.macs) },
    { title: "weights", number: true, down: true, value: (row) => last(row).counts.weight_bytes, text: (row) => bytes(last(row).counts.weight_bytes) },
    { title: "moves", number: true, down: true, value: (row) => last(row).counts.read + last(row).counts.written, text: (row) => bytes(last(row).counts.read + last(row).counts.written) },
    ...numbers("time", with_((l) => l.seconds), (l) => l.seconds, seconds, named),
    ...numbers("cycles", with_((l) => l.device), (l) => l.device?.cycles, whole),
    ...numbers("bound", with_((l) => l.device), (l) => l.device?.bound, whole),
    ...quantizedSlots.map((index) => ({ title: headed(index, "decision"), class: "why", value: (row) => of(row, index).decision?.outcome, text: (row) => decisionText(of(row, index)) })),
  ];
  const rows = data.rows.map((row, number) => number);
  const table = sortable(byId("layer-table"), columns, { rows, pick: openRow });
  byId("filter").addEventListener("input", (event) => {
    table.rows(matching(event.target.value));
    mark();
  });
}

const upwards = (column) => ({ ...column, down: false });
const last = (row) => quantizedSlots.map((index) => layerOf(row, index)).find(Boolean) ?? any(row);
const typeText = (layer) => (layer.result ? (layer.weights?.quantized ? `${layer.result.type}, ${layer.weights.type} weights` : layer.result.type) : "–");
const decisionText = (layer) => (layer.decision ? `${layer.decision.outcome}: ${layer.decision.reason}${layer.remedy ? `; ${layer.remedy}` : ""}` : "–");

// -----------------------------------------------------------------------------------------------------------------
// Search

/** The rows whose names or operations hold all words of a text. */
function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return data.rows.map((row, number) => number).filter((row) => words.every((word) => haystack(row).includes(word)));
}

const haystacks = [];
function haystack(row) {
  haystacks[row] ??= networks.map((network, index) => layerOf(row, index)).filter(Boolean)
    .flatMap((layer) => [layer.name, layer.operation, ...layer.names, layer.result.name]).join(" ").toLowerCase();
  return haystacks[row];
}

function listen() {
  const input = byId("search"), list = byId("found");
  let at = -1;
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const show = () => {
    const rows = input.value.trim() ? matching(input.value).slice(0, 40) : [];
    at = rows.length ? 0 : -1;
    list.replaceChildren(...rows.map((row) => element("li", { role: "option", "data-row": String(row), onpointerdown: (event) => { event.preventDefault(); take(row); } },
      data.rows[row].name, " ", element("small", {}, kind(any(row).operation)))));
    if (input.value.trim() && !rows.length) list.replaceChildren(element("li", {}, "no layer of that name"));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    point();
  };
  const point = () => [...list.children].forEach((line, index) => {
    line.setAttribute("aria-selected", String(index === at));
    if (index === at) line.scrollIntoView({ block: "nearest" });
  });
  const take = (row) => { close(); openRow(row); };
  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const count = list.querySelectorAll("[data-row]").length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = count ? (at + (event.key === "ArrowDown" ? 1 : count - 1)) % count : -1;
      point();
    } else if (event.key === "Enter" && at >= 0) take(Number(list.children[at].dataset.row));
    else if (event.key === "Escape") close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/input|select|textarea/i.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
}

// -----------------------------------------------------------------------------------------------------------------
// Light and dark

function setTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const use = (theme) => { document.documentElement.dataset.theme = theme; plotted.forEach(paint); };
  use(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => use(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => use(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

// -----------------------------------------------------------------------------------------------------------------
// The other parts

function showDevice() {
  const target = byId("device-text");
  if (data.missing.device) target.append(element("p", { class: "missing" }, data.missing.device));
  for (const network of networks.filter((each) => each.run)) {
    const { run } = network;
    const others = Object.entries(run.others);
    if (others.length) {
      target.append(element("p", { class: "note" }, `${networks.length > 1 ? `${network.name}: ` : ""}besides the layers: ${others.map(([name, cost]) => `${name || "before the first layer"} ${whole(cost.cycles)} cycles`).join(", ")}.`));
    }
    if (run.on_host.length) {
      const table = element("table");
      sortable(table, [
        { title: "on the host", class: "name", value: (row) => run.on_host[row].node, text: (row) => shortened(run.on_host[row].node, 64) },
        { title: "operation", value: (row) => run.on_host[row].operation, text: (row) => kind(run.on_host[row].operation) },
        { title: "why", class: "why", value: (row) => run.on_host[row].reason, text: (row) => element("span", { title: run.on_host[row].reason }, shortened(run.on_host[row].reason, 240)) },
      ], { rows: run.on_host.map((entry, index) => index) });
      const title = `${run.on_host.length} operations of ${network.name} that the host of ${run.device} computes, and why`;
      target.append(element("details", {}, element("summary", {}, title), element("div", { class: "scrolled" }, table)));
    }
  }
}

const tapped = (row) => row >= 0 && openRow(row);

/** Draws each plot when it comes into view, so that the page opens fast. */
const seen = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    seen.unobserve(target);
    plot(target.plot, target, tapped);
  }
}, { rootMargin: "300px" });

function later(holder, item) {
  holder.plot = item;
  seen.observe(holder);
  return holder;
}

function drawPlots() {
  for (const holder of document.querySelectorAll("[data-plot]")) {
    const name = holder.dataset.plot;
    if (data.plots[name]) later(holder, data.plots[name]);
    else holder.closest("section").hidden = name !== "cycles" || !data.missing.device;
    holder.hidden = !data.plots[name];
  }
  byId("rooflines").replaceChildren(...data.rooflines.map((item) => later(element("div", { class: "plot" }), item)));
  networks.forEach((network, index) => {
    const { scratch, device } = data.maps[index];
    const parts = [[byId("scratch"), scratch, "Scratch memory"], [byId("memories"), device, `Memories of ${network.run?.device}`]];
    for (const [target, maps, title] of parts) {
      if (!maps.length) continue;
      const pictures = maps.map((map) => element("div", {},
        element("h4", {}, `${map.memory}: ${bytes(map.peak)} of ${bytes(map.size)} at most in use`), later(element("div", { class: "plot" }), map.plot)));
      target.append(element("details", {}, element("summary", {}, `${title} over time, ${network.name}`), element("div", { class: maps.length > 1 ? "two" : "" }, ...pictures)));
    }
  });
}

/** Selects the worst layer, so that a reader sees what the page tells of a layer. */
function chooseFirst() {
  const worst = document.querySelector("#worst-list tr[data-row]");
  if (worst) choose(Number(worst.dataset.row));
}

function showSections() {
  const links = [...document.querySelectorAll("main > section:not([hidden])")].map((part) =>
    element("a", { href: `#${part.id}` }, part.querySelector("h2").textContent));
  byId("sections").replaceChildren(...links);
}

byId("title").textContent = data.title;
setTheme();
summarize();
showWorst();
setColours();
showLegend();
showNetwork();
showLayers();
showDevice();
listen();
describe(null, byId("details"));
const timed = networks.find((network) => network.timing);
byId("times-note").textContent = timed ? `Means over the faster half of the calls, on ${timed.timing.processor || "this processor"}, one thread.` : data.missing.times ?? "";
drawPlots();
showSections();
requestIdleCallback(() => chosen === null && chooseFirst());
document.documentElement.dataset.ready = "true";
