// Numbers and names as text.

const data = JSON.parse(document.getElementById("data").textContent);
const networks = data.networks;

/** A number that JSON may hold as text: "inf", "-inf". */
function real(value) {
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
}

/** Decibels: 38.2 dB; a tensor without any error is exact. */
function decibels(value) {
  const number = real(value);
  if (number === null || number === undefined) return "–";
  return number === Infinity ? "exact" : number === -Infinity ? "no signal" : `${number.toFixed(1)} dB`;
}

/** A whole number with a thin space between thousands. */
function whole(value) {
  return value === null || value === undefined ? "–" : String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Four significant digits. */
function digits(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
  return String(Number(value.toPrecision(4)));
}

function scaled(value, units, base) {
  if (value === null || value === undefined) return "–";
  let step = 0;
  while (value >= base * 0.9995 && step < units.length - 1) {
    value /= base;
    step += 1;
  }
  return `${step ? Number(value.toPrecision(3)) : Math.round(value)} ${units[step]}`;
}

const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB"], 1000);
const products = (value) => (value ? scaled(value, ["MAC", "kMAC", "MMAC", "GMAC"], 1000) : value === 0 ? "0" : "–");

function seconds(value) {
  if (value === null || value === undefined) return "–";
  const [size, unit] = value < 1e-3 ? [1e6 * value, "µs"] : value < 1 ? [1e3 * value, "ms"] : [value, "s"];
  return `${size < 10 ? size.toFixed(2) : size < 100 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

function share(value, places = 2) {
  if (value === null || value === undefined) return "–";
  return `${(100 * value).toFixed(places)} %`;
}

/** A share that is often tiny: 0, or at least two digits. */
function tiny(value) {
  if (value === null || value === undefined) return "–";
  return value === 0 ? "none" : `${Number((100 * value).toPrecision(2))} %`;
}

/** One number, or the least and the greatest of several. */
function span(pair, text) {
  if (!pair) return "–";
  const [low, high] = pair.map(text);
  return low === high ? low : `${low} … ${high}`;
}

/** A name without its middle if it is longer than `most`. */
function shortened(name, most) {
  if (name.length <= most) return name;
  const kept = most - 1;
  return `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(name.length - Math.floor(kept / 2))}`;
}

/** A name as text with places where a line may break. */
function breakable(name) {
  return name.split(/(?<=[+/;:._])/).flatMap((part) => [part, document.createElement("wbr")]).slice(0, -1);
}

/** `nn.conv2d` as `conv2d`. */
const kind = (operation) => operation.replace(/^\w+\./, "");

const shape = (sizes) => (sizes.length ? sizes.join(" × ") : "scalar");

/** An element with attributes, and with children that are elements or text; text is never read as markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

function vector(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

/** The layer of a row in a network; null if the network has no such layer. */
function layerOf(row, slot) {
  const index = data.rows[row].at[slot];
  return index === null ? null : networks[slot].layers[index];
}

/** For each network, the row of each of its layers. */
const rowsOf = networks.map((network, slot) => {
  const rows = new Array(network.layers.length).fill(null);
  data.rows.forEach((row, number) => {
    if (row.at[slot] !== null) rows[row.at[slot]] = number;
  });
  return rows;
});

const quantizedSlots = networks.map((network, slot) => slot).filter((slot) => networks[slot].quantized);
