// The page: takes the files of a bundle, and writes tokens as they are found.
"use strict";

const element = (id) => document.getElementById(id);
let decoder = null, words = null, stopped = false;

// The pieces of a file, so that its bytes are in memory only once.
async function* pieces(file) {
  for (const reader = file.stream().getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

async function load(files) {
  const named = (ending, what) => {
    const found = files.find((file) => file.name.endsWith(ending));
    if (!found && what) throw new Error(`choose ${what}, too`);
    return found;
  };
  const manifest = JSON.parse(await named("manifest.json", "manifest.json").text());
  const code = await named(".wasm", "the .wasm file").arrayBuffer();
  const weights = named(".weights.bin", "the .weights.bin file"), list = named(".words", "");
  words = list ? new Words(new Uint8Array(await list.arrayBuffer())) : null;
  const size = weights.size;
  decoder = await Decoder.load(manifest, code, pieces(weights), (there) => {
    element("state").textContent = `${Math.floor((100 * there) / size)} % of the weights`;
  });
  element("state").textContent = `${manifest.name}: ${decoder.vocabulary} tokens, ${decoder.context} places`;
}

async function write(prompt, count) {
  const answer = element("answer"), begin = performance.now();
  answer.textContent = "";
  decoder.reset();
  let made = 0;
  for await (const token of decoder.generate(prompt, count)) {
    answer.textContent += words ? words.of(token) : `${token} `;
    const seconds = (performance.now() - begin) / 1000;
    element("state").textContent = `${++made} tokens behind a prompt of ${prompt.length}, ${seconds.toFixed(1)} s`;
    if (stopped) break;
  }
}

// Runs a task with the buttons as they have to be, and shows what went wrong.
async function busy(task) {
  element("message").textContent = "";
  element("write").disabled = true;
  element("stop").disabled = false;
  document.documentElement.dataset.ready = "false";
  stopped = false;
  try {
    await task();
  } catch (error) {
    element("message").textContent = error.message;
  }
  element("write").disabled = decoder === null;
  element("stop").disabled = true;
  document.documentElement.dataset.ready = "true";
}

element("files").addEventListener("change", (event) => {
  decoder = null;
  busy(() => load([...event.target.files]));
});
element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const prompt = element("prompt").value.trim().split(/[\s,]+/).map(Number);
  busy(() => write(prompt, Number(element("count").value)));
});
element("stop").addEventListener("click", () => (stopped = true));
document.documentElement.dataset.ready = "true";
