// The words of tokens: the file that words.py writes, each token's bytes behind their number in one byte.
"use strict";

class Words {
  #bytes;
  #starts = [];
  #decoder = new TextDecoder();

  constructor(bytes) {
    this.#bytes = bytes;
    for (let at = 0; at < bytes.length; at += 1 + bytes[at]) this.#starts.push(at);
  }

  // The text that a token adds; a character of several bytes appears with the last of them.
  of(token) {
    const start = this.#starts[token];
    const bytes = start === undefined ? [] : this.#bytes.subarray(start + 1, start + 1 + this.#bytes[start]);
    return this.#decoder.decode(Uint8Array.from(bytes), { stream: true });
  }
}

if (typeof module !== "undefined") module.exports = { Words };
