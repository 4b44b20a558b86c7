// Runs Perfetto's own trace processor, the WebAssembly of its web page: requests in from a file, answers out to another.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, input, output] = process.argv.slice(2);
const file = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));
process.on("uncaughtException", (error) => {
  console.error(String(error).slice(0, 500)); // not the page's source, which is one long line
  process.exit(1);
});

// A browser's worker, as far as the page's code looks for one: it refuses to run where there is a `process`.
const worker = {
  console, TextDecoder, TextEncoder, URL, performance, Response, setTimeout, clearTimeout, crypto,
  WorkerGlobalScope: class {},
  location: { href: "file:///worker.js" },
  importScripts() {},
  fetch: async (name) => new Response(file(name), { headers: { "Content-Type": "application/wasm" } }),
  XMLHttpRequest: class {
    open(_, name) { this.name = name; }
    send() { this.status = 200; this.response = file(this.name); if (this.onload) this.onload(); }
  },
};
worker.self = worker;
vm.runInContext(file("engine_bundle.js").toString(), vm.createContext(worker));

const answers = [];
const port = { postMessage: (bytes) => answers.push(Buffer.from(bytes)) };
worker.onmessage({ data: port });
const own = vm.runInContext("(bytes) => new Uint8Array(bytes)", worker);
const started = Date.now();

function ask() {
  try {
    port.onmessage({ data: own(fs.readFileSync(input)) });
  } catch (error) {
    if (Date.now() - started > 60_000 || /crashed/.test(String(error))) throw error;
    setTimeout(ask, 100); // the module is still being compiled
    return;
  }
  fs.writeFileSync(output, Buffer.concat(answers));
}
setTimeout(ask, 3000);
