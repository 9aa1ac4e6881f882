// Greedy generation in node, with the decoder of the page.
//
//   node generate.js FOLDER COUNT TOKEN…      COUNT tokens behind the prompt, one by one as they are found
//
// FOLDER is a bundle, with the linked module beside its manifest.json.
"use strict";

const fs = require("fs");
const path = require("path");
const { Decoder } = require("./decoder.js");

const [folder, count, ...prompt] = process.argv.slice(2);

async function main() {
  if (!folder || !(Number(count) > 0) || !prompt.length) throw new Error("usage: node generate.js FOLDER COUNT TOKEN…");
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, "manifest.json")));
  const file = (ending) => path.join(folder, manifest.name + ending);
  const decoder = await Decoder.load(manifest, fs.readFileSync(file(".wasm")), fs.createReadStream(file(".weights.bin")));
  for await (const token of decoder.generate(prompt.map(Number), Number(count))) process.stdout.write(`${token} `);
  process.stdout.write("\n");
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
