// The network's graph: boxes in layers, which can be moved and zoomed, coloured by what the reader asks for.

const BLANK = "#c9cdd3";
const KINDS = { "8 bits": "#a6cee9", "16 bits": "#a8ddb0", "other integers": "#cbb8e6", floats: "#f9c48a" };
const REDS = ["#fdf3d8", "#fbd58d", "#f6a35c", "#e3653f", "#b3222b"];
const BLUES = ["#eef4fb", "#bfdcf2", "#82b9e2", "#4089c4", "#1b5a96"];

/** Ways to colour layers: the figure of a layer, and the share of the ramp that it takes; or a class. */
const COLOURINGS = [
  { id: "own", title: "own SQNR", ramp: REDS, figure: (layer) => layer.errors?.own, text: decibels, at: badness, ends: ["50 dB", "10 dB"] },
  { id: "whole", title: "whole SQNR", ramp: REDS, figure: (layer) => layer.errors?.whole, text: decibels, at: badness, ends: ["50 dB", "10 dB"] },
  { id: "precision", title: "precision", classes: KINDS, of: precision },
  { id: "time", title: "time", ramp: BLUES, figure: (layer) => layer.seconds, text: seconds, at: portion },
  { id: "cycles", title: "cycles on the device", ramp: BLUES, figure: (layer) => layer.device?.cycles, text: whole, at: portion },
  { id: "macs", title: "MACs", ramp: BLUES, figure: (layer) => layer.counts.macs || null, text: products, at: portion },
  { id: "weights", title: "bytes of weights", ramp: BLUES, figure: (layer) => layer.counts.weight_bytes || null, text: bytes, at: portion },
].filter((each) => each.classes || networks.some((n) => n.layers.some((layer) => (each.figure(layer) ?? null) !== null)));

function badness(value) {
  return Math.min(Math.max((50 - real(value)) / 40, 0), 1);
}

function portion(value, most) {
  return most ? Math.sqrt(value / most) : 0;
}

function precision(layer) {
  const { quantized, type } = layer.result;
  const bits = Number(type.slice(1));
  if (!quantized) return /^(f|bf)/.test(type) ? "floats" : "other integers";
  return bits === 8 ? "8 bits" : bits === 16 ? "16 bits" : "other integers";
}

function mixed(ramp, at) {
  const place = at * (ramp.length - 1);
  const index = Math.min(Math.floor(place), ramp.length - 2);
  const part = place - index;
  const [low, high] = [ramp[index], ramp[index + 1]].map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  return `#${low.map((v, i) => Math.round(v + part * (high[i] - v)).toString(16).padStart(2, "0")).join("")}`;
}

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const parts = [1, 3, 5].map((i) => (parseInt(colour.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.22 ? "#10161f" : "#ffffff";
}

function colourOf(layer, network, colouring) {
  if (colouring.classes) return colouring.classes[colouring.of(layer)];
  const value = colouring.figure(layer) ?? null;
  if (value === null) return BLANK;
  const most = Math.max(...network.layers.map((each) => colouring.figure(each) ?? 0));
  return mixed(colouring.ramp, colouring.at(value, most));
}

/** The kernel, such as ` 3×3 /2`, of an operation with a window. */
function window_(layer) {
  const { strides, window, dilations } = layer.attributes;
  const sizes = window ? window.split(", ") : layer.weights?.shape.length === 4 ? layer.weights.shape.slice(1, 3) : null;
  if (!sizes || !strides) return "";
  const steps = strides.split(", ");
  const stride = steps.every((s) => s === "1") ? "" : ` /${[...new Set(steps)].join("×")}`;
  return ` ${sizes.join("×")}${stride}${dilations && /[^1, ]/.test(dilations) ? ` dilated ${dilations}` : ""}`;
}

const pen = document.createElement("canvas").getContext("2d");

/** The pixels that a text of a node takes. */
function textWidth(text, weight = "") {
  pen.font = `${weight}12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A text, shortened in its middle until it takes at most so many pixels. */
function fitting(text, room, weight) {
  let most = text.length;
  while (most > 3 && textWidth(shortened(text, most), weight) > room) most -= 1;
  return shortened(text, most);
}

/** The graph in an element. `pick(row)` is called when the reader selects a layer. */
class Graph {
  constructor(target, pick) {
    this.target = target;
    this.pick = pick;
    this.canvas = vector("svg", { class: "canvas", role: "group", "aria-label": "Graph of the network" });
    this.scene = vector("g");
    this.canvas.append(this.scene);
    this.overview = vector("svg", { class: "whole", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.tip = element("div", { class: "tip", hidden: true });
    const buttons = [["−", "Zoom out", () => this.zoom(1 / 1.3)], ["+", "Zoom in", () => this.zoom(1.3)],
      ["Fit", "Show the whole network", () => this.fit()], ["1:1", "Readable size", () => this.top()]];
    target.append(this.canvas, this.overview,
      element("div", { class: "buttons" }, ...buttons.map(([text, title, run]) =>
        element("button", { type: "button", title, "aria-label": title, onclick: run }, text))),
      element("div", { class: "hint" }, "drag or scroll to move · Ctrl + scroll to zoom"));
    document.body.append(this.tip);
    this.listen();
  }

  /** Draws a network. */
  show(slot, colouring) {
    this.slot = slot;
    this.network = networks[slot];
    const { nodes, edges } = this.network.drawing;
    this.edges = edges.map((points) => vector("path", { class: "edge", d: curve(points) }));
    this.boxes = nodes.map((place, index) => this.box(index, place));
    this.scene.replaceChildren(...this.edges, ...this.boxes.map((box) => box.group));
    this.window = vector("rect", { class: "window" });
    this.marks = nodes.map(([x, y]) => vector("rect", { x: x - data.box[0] / 2, y: y - data.box[1] / 2, width: data.box[0], height: data.box[1] }));
    const { width, height } = this.network.drawing;
    this.overview.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.overview.replaceChildren(...this.marks, this.window);
    this.colour(colouring);
    this.top();
  }

  /** The layer of a node; null for an input or an output of the network. */
  layerAt(node) {
    const layer = node - this.network.inputs.length;
    return layer >= 0 && layer < this.network.layers.length ? layer : null;
  }

  box(index, [x, y]) {
    const [width, height] = data.box;
    const group = vector("g", { class: "node", transform: `translate(${x - width / 2} ${y - height / 2})`, tabindex: "0" });
    group.append(vector("rect", { width, height, rx: 6 }));
    const number = this.layerAt(index);
    const write = (text, attributes) => group.append(vector("text", attributes, text));
    if (number === null) {
      const input = this.network.inputs[index];
      const tensor = input ?? this.sourceOf(index);
      group.classList.add("end");
      group.removeAttribute("tabindex");
      write(input ? "input" : "output", { class: "kind", x: 9, y: 17 });
      write(shortened(`${tensor.name || ""} ${tensor.shape.join("×")} ${tensor.type}`.trim(), 26), { x: 9, y: 32 });
      return { group };
    }
    const layer = this.network.layers[number];
    const row = rowsOf[this.slot][number];
    group.setAttribute("role", "button");
    group.setAttribute("aria-label", `${kind(layer.operation)} ${layer.name}`);
    group.dataset.row = row;
    const head = vector("text", { class: "kind", x: 9, y: 17 });
    group.append(head);
    write(shortened(layer.name === layer.operation ? layer.result.shape.join("×") : layer.name, 25), { x: 9, y: 32 });
    const figure = vector("text", { class: "figure", x: width - 8, y: 17 });
    group.append(figure);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.pick(row);
      }
    });
    return { group, head, figure, layer, row };
  }

  sourceOf(node) {
    const link = this.network.drawing.links.find(([, end]) => end === node);
    const layer = this.layerAt(link[0]);
    return layer === null ? this.network.inputs[link[0]] : this.network.layers[layer].result;
  }

  colour(colouring) {
    this.colouring = colouring;
    this.boxes.forEach((box, index) => {
      if (!box.layer) {
        this.marks[index].setAttribute("fill", BLANK);
        return;
      }
      const colour = colourOf(box.layer, this.network, colouring);
      box.group.firstChild.setAttribute("fill", colour);
      box.group.setAttribute("fill", inkOn(colour));
      const value = colouring.figure?.(box.layer) ?? null;
      box.figure.textContent = colouring.classes ? box.layer.result.type : value === null ? "" : colouring.text(value);
      const room = data.box[0] - 24 - textWidth(box.figure.textContent);
      box.head.textContent = fitting(kind(box.layer.operation) + window_(box.layer), room, "600 ");
      this.marks[index].setAttribute("fill", colour);
    });
  }

  /** Marks a row's layer and its edges, and brings it into view. */
  choose(row) {
    const chosen = this.boxes.findIndex((box) => box.row === row);
    this.boxes.forEach((box, index) => box.group.classList.toggle("chosen", index === chosen && row !== null));
    this.network.drawing.links.forEach((link, index) => this.edges[index].classList.toggle("near", link.includes(chosen)));
    if (chosen < 0) return;
    const [x, y] = this.network.drawing.nodes[chosen];
    const { width, height } = this.size();
    this.scale = Math.max(this.scale, 0.7);
    const [left, top] = [x * this.scale + this.x, y * this.scale + this.y];
    if (left < 110 || left > width - 170 || top < 60 || top > height - 50) {
      this.x = width / 2 - x * this.scale;
      this.y = height / 2 - y * this.scale;
    }
    this.apply();
  }

  size() {
    const { clientWidth, clientHeight } = this.target;
    return { width: clientWidth, height: clientHeight };
  }

  fit() {
    const { width, height } = this.size();
    const drawing = this.network.drawing;
    this.scale = Math.min((width - 80) / drawing.width, height / drawing.height, 1.2);
    this.x = (width - 80 - drawing.width * this.scale) / 2;
    this.y = (height - drawing.height * this.scale) / 2;
    this.apply();
  }

  /** The upper end of the network at a size that can be read. */
  top() {
    const { width, height } = this.size();
    const drawing = this.network.drawing;
    const whole = Math.min((width - 80) / drawing.width, height / drawing.height, 1.2);
    this.scale = Math.max(whole, Math.min(1, Math.max((width - 80) / drawing.width, 0.7)));
    const first = drawing.nodes[0]?.[0] ?? 0;
    const fits = drawing.width * this.scale <= width - 80;
    this.x = fits ? (width - 80 - drawing.width * this.scale) / 2 : (width - 80) / 2 - first * this.scale;
    this.y = drawing.height * this.scale <= height ? (height - drawing.height * this.scale) / 2 : 4;
    this.apply();
  }

  /** Zooms around a point of the element, its middle unless given. */
  zoom(factor, point = null) {
    const { width, height } = this.size();
    const [x, y] = point ?? [width / 2, height / 2];
    const scale = Math.min(Math.max(this.scale * factor, 0.04), 4);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  apply() {
    this.scene.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    const { width, height } = this.size();
    const seen = { x: -this.x / this.scale, y: -this.y / this.scale, width: width / this.scale, height: height / this.scale };
    for (const [name, value] of Object.entries(seen)) this.window.setAttribute(name, value);
  }

  listen() {
    let from = null;
    let moved = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = [event.clientX - this.x, event.clientY - this.y, event.clientX, event.clientY];
      moved = false;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from === null || event.buttons === 0) {
        from = null;
        this.hover(event);
        return;
      }
      moved ||= Math.hypot(event.clientX - from[2], event.clientY - from[3]) > 4;
      if (!moved) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.classList.add("moving");
      this.tip.hidden = true;
      [this.x, this.y] = [event.clientX - from[0], event.clientY - from[1]];
      this.apply();
    });
    this.canvas.addEventListener("pointerup", () => {
      this.canvas.classList.remove("moving");
      from = null;
    });
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (event) => {
      const node = event.target.closest(".node[data-row]");
      if (node && !moved) this.pick(Number(node.dataset.row));
    });
    this.canvas.addEventListener("wheel", (event) => {
      const place = this.target.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.004), [event.clientX - place.left, event.clientY - place.top]);
        return;
      }
      const { height } = this.size();
      const lowest = Math.min(height - this.network.drawing.height * this.scale, 0);
      const y = Math.min(Math.max(this.y - event.deltaY, Math.min(lowest, this.y)), Math.max(4, this.y));
      if (y === this.y && !event.deltaX) return; // at an end: the page scrolls
      event.preventDefault();
      this.y = y;
      this.x -= event.deltaX;
      this.apply();
    }, { passive: false });
    const jump = (event) => {
      if (event.buttons === 0) return;
      const place = this.overview.getBoundingClientRect();
      const { width, height } = this.size();
      const drawing = this.network.drawing;
      this.y = height / 2 - ((event.clientY - place.top) / place.height) * drawing.height * this.scale;
      if (drawing.width * this.scale > width - 80) {
        this.x = width / 2 - ((event.clientX - place.left) / place.width) * drawing.width * this.scale;
      }
      this.apply();
    };
    this.overview.addEventListener("pointerdown", jump);
    this.overview.addEventListener("pointermove", jump);
    new ResizeObserver(() => this.network && this.apply()).observe(this.target);
  }

  hover(event) {
    const node = event.target.closest?.(".node[data-row]");
    this.tip.hidden = !node;
    if (!node) return;
    const layer = layerOf(Number(node.dataset.row), this.slot);
    const facts = [
      `${layer.result.shape.join("×")} ${layer.result.type}`,
      layer.errors && `own SQNR ${decibels(layer.errors.own)}, whole SQNR ${decibels(layer.errors.whole)}`,
      layer.counts.macs && products(layer.counts.macs),
      layer.counts.weight_bytes && `${bytes(layer.counts.weight_bytes)} of weights`,
      layer.seconds !== null && seconds(layer.seconds),
      layer.device && `${whole(layer.device.cycles)} cycles`,
    ].filter(Boolean);
    this.tip.replaceChildren(element("b", {}, shortened(layer.name, 90)), `${kind(layer.operation)} · ${facts.join(" · ")}`);
    const { width, height } = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
    this.tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  }
}

/** A smooth path through points, vertical at each of them. */
function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first[0]} ${first[1]}`;
  let [x, y] = first;
  for (const [right, down] of rest) {
    const middle = (y + down) / 2;
    path += x === right ? `V${down}` : `C${x} ${middle} ${right} ${middle} ${right} ${down}`;
    [x, y] = [right, down];
  }
  return path;
}
