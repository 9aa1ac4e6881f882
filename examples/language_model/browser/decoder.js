// A decoder in WebAssembly: the bundle of a quantized language model, called from JavaScript, in a page or in node.
//
//   const decoder = await Decoder.load(manifest, code, weights);
//   for await (const token of decoder.generate([17, 4, 99], 20)) …
//
// The bundle is one of `qmlir compile --bundle --cpu wasm32 --weights-in file`, whose object wasm-ld has linked. The
// network has the inputs `token` and `pos` and the output `logits`, as networks read from GGUF files have; the entries
// `prefill`, which takes as many tokens a call as its input has elements, and `decode`, which takes one. It computes on
// integers, so that the tokens are those of every other processor.
"use strict";

const PAGE = 65536; // bytes of a page of WebAssembly's memory

const ARRAYS = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, float32: Float32Array,
};

class Decoder {
  // Resolves to a decoder in the states before the first call. `manifest` is the object in manifest.json, `code` the
  // bytes of the linked module, `weights` an iterable of the weight file's pieces (Uint8Array), and `progress` is
  // called with the number of bytes that are there.
  static async load(manifest, code, weights, progress = () => {}) {
    demand(manifest.document === "bundle", "manifest.json must be that of a bundle");
    demand(manifest.api === "static", `the bundle must be made with --api static, not ${manifest.api}`);
    demand(manifest.weights === "file", `the bundle must be made with --weights-in file, not ${manifest.weights}`);
    const { instance } = await WebAssembly.instantiate(code, {});
    const decoder = new Decoder(manifest, instance.exports);
    await decoder.#read(weights, progress);
    decoder.reset();
    return decoder;
  }

  #exports;
  #name;
  #entries = {};
  #weights;
  #size;
  #states;

  constructor(manifest, exports) {
    this.#exports = exports;
    this.#name = manifest.name;
    this.#size = manifest.sizes.constants;
    this.#states = manifest.sizes.state_bytes;
    this.#weights = this.#allocate(this.#size);
    for (const entry of manifest.entries) this.#entries[entry.name] = this.#entry(entry);
    const { prefill, decode } = this.#entries;
    demand(prefill && decode, "the network must have the entries prefill and decode");
    demand(decode.token.elements === 1, "the entry decode must take one token");
    this.rows = prefill.token.elements; // the tokens of a call of prefill
    this.vocabulary = decode.logits.elements;
    const cache = manifest.states.find((state) => state.shape.length === 3);
    this.context = cache ? cache.shape[1] : Infinity; // the places whose keys and values are kept
    this.at = 0; // how many tokens the decoder has read
  }

  // Gives the states the values before the first token.
  reset() {
    this.#call("reset");
    this.at = 0;
  }

  // The states as bytes, which are the same for all processors; and the place behind the last token that was read.
  exportState() {
    const place = this.#allocated ??= this.#allocate(this.#states);
    this.#call("export_state", place);
    return { at: this.at, bytes: new Uint8Array(this.#exports.memory.buffer, place, this.#states).slice() };
  }

  // Goes on from exported states.
  importState({ at, bytes }) {
    demand(bytes.length === this.#states, `the states must have ${this.#states} bytes, not ${bytes.length}`);
    const place = this.#allocated ??= this.#allocate(this.#states);
    new Uint8Array(this.#exports.memory.buffer, place, this.#states).set(bytes);
    this.#call("import_state", place);
    this.at = at;
  }

  #allocated;

  // Reads tokens behind those that were read; returns the most likely next one. At most as many calls of `prefill` as
  // fit, then `decode`; between calls, others of the page's tasks get their turn.
  async read(tokens) {
    demand(tokens.length > 0, "there must be at least one token");
    const unknown = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= this.vocabulary);
    demand(unknown === undefined, `tokens must be numbers below ${this.vocabulary}, not ${unknown}`);
    const most = this.context - this.at;
    demand(tokens.length <= most, `the context has ${this.context} places, and ${most} are left`);
    let next;
    for (let i = 0; i < tokens.length; ) {
      const entry = tokens.length - i >= this.rows ? this.#entries.prefill : this.#entries.decode;
      next = this.#step(entry, tokens.slice(i, i + entry.token.elements));
      i += entry.token.elements;
      await new Promise((done) => setTimeout(done));
    }
    return next;
  }

  // Yields the most likely next token behind a prompt, again and again.
  async *generate(prompt, count) {
    let next = await this.read(prompt);
    for (let i = 0; i < count; ++i) {
      yield next;
      if (i + 1 < count) next = await this.read([next]);
    }
  }

  #step(entry, tokens) {
    const { token, pos, logits } = entry;
    const given = this.#array(token), places = this.#array(pos);
    const number = given instanceof BigInt64Array ? BigInt : Number;
    tokens.forEach((each, i) => {
      given[i] = number(each);
      places[i] = number(this.at + i);
    });
    entry.run(this.#weights, ...entry.order);
    this.at += tokens.length;
    const last = this.#array(logits).subarray(logits.elements - this.vocabulary);
    let best = 0;
    for (let i = 1; i < last.length; ++i) if (last[i] > last[best]) best = i;
    return best;
  }

  #entry({ name, function: run, inputs, outputs }) {
    const ports = [...inputs, ...outputs].map((port) => {
      const elements = port.shape.reduce((a, b) => a * b, 1), type = ARRAYS[port.type];
      demand(type, `the type ${port.type} of ${port.name} has no array here`);
      return { name: port.name, type, elements, place: this.#allocate(elements * type.BYTES_PER_ELEMENT) };
    });
    const entry = Object.fromEntries(ports.map((port) => [port.name, port]));
    for (const needed of ["token", "pos", "logits"])
      demand(entry[needed], `the entry ${name} must have the input or output ${needed}`);
    return { ...entry, run: this.#exported(run), order: ports.map((port) => port.place) };
  }

  #exported(name) {
    const found = this.#exports[name];
    demand(found, `the module must export ${name}: link it with wasm-ld --no-entry --export-dynamic`);
    return found;
  }

  #call(name, ...places) {
    this.#exported(`${this.#name}_${name}`)(...places);
  }

  // A view that lives until memory grows again.
  #array({ type, place, elements }) {
    return new type(this.#exports.memory.buffer, place, elements);
  }

  #allocate(size) {
    return this.#exports.memory.grow(Math.ceil(size / PAGE)) * PAGE;
  }

  async #read(weights, progress) {
    const memory = new Uint8Array(this.#exports.memory.buffer, this.#weights, this.#size);
    let there = 0;
    for await (const piece of weights) {
      if (there + piece.length <= this.#size) memory.set(piece, there);
      there += piece.length;
      progress(there);
    }
    demand(there === this.#size, `the weights must have ${this.#size} bytes, not ${there}`);
  }
}

function demand(condition, message) {
  if (!condition) throw new Error(message);
}

if (typeof module !== "undefined") module.exports = { Decoder };
