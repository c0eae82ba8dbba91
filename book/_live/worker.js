// The interpreter, away from the page: the page stays alive while a cell runs, and to
// stop a cell is to end this worker. It asks no server: what Pyodide wants to fetch is
// among the files that the page has handed over.
"use strict";

let files;
let shell;
let output = () => {};

function opened(name) {
  const kept = files.get(name);
  if (kept) return kept.stream();
  const packed = files.get(`${name}.gz`);
  if (packed) return packed.stream().pipeThrough(new DecompressionStream("gzip"));
  throw new Error(`no file ${name}`);
}

const response = (name) => new Response(opened(name));

self.fetch = async (address) => {
  const name = String(address.url ?? address).split("/").pop();
  const kind = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  return new Response(opened(name), { headers: { "Content-Type": kind } });
};

// From a folder a browser lets a page make a classic worker alone, not one of modules.
// Pyodide refuses the former, which it knows by this function, because it may lack
// import(); here it does not.
self.importScripts = () => {
  throw new Error("this worker imports modules");
};

async function module(name) {
  const code = new Blob([await response(name).text()], { type: "text/javascript" });
  return import(URL.createObjectURL(code));
}

// The stages of the start, with the part of its time that has passed before each.
const stage = (words, part) => postMessage({ kind: "stage", words, part });

async function start() {
  stage("Starting Python: compiling the interpreter", 0.05);
  const { loadPyodide } = await module("pyodide.mjs");
  const { default: createPyodideModule } = await module("pyodide.asm.mjs");
  const python = await loadPyodide({
    indexURL: "file:///",
    lockFileContents: await response("pyodide-lock.json").json(),
    packageBaseUrl: "file:///",
    createPyodideModule,
    env: { HOME: "/home/pyodide", MPLBACKEND: "agg" },
  });
  stage("Starting Python: unpacking the packages", 0.3);
  await python.loadPackage(["numpy", "sympy", "matplotlib"], {
    messageCallback: () => {},
    errorCallback: (message) => {
      throw new Error(message);
    },
  });
  stage("Starting Python: importing the packages", 0.6);
  for (const name of ["cells.py", "pretty.py"])
    python.FS.writeFile(`/home/pyodide/${name}`, await response(name).text());
  // Where a page in a folder of the book looks for what was measured.
  python.FS.mkdirTree("/benchmarks");
  python.FS.writeFile("/benchmarks/peers.json", await response("peers.json").text());
  python.unpackArchive(await response("softtopk.whl").arrayBuffer(), "wheel");
  python.globals.set("emit", (value) => output(value));
  shell = python.runPython(`
import sys
sys.path.insert(0, "/home/pyodide")
import matplotlib.pyplot as plt
import sympy, softtopk, cells
from js import Object
from pyodide.ffi import to_js
shell = cells.Shell(lambda value: emit(to_js(value, dict_converter=Object.fromEntries)))
plt.show = lambda *args, **kwargs: shell.figures()
shell
`);
}

const tasks = {
  start: async (message) => {
    files = message.files;
    await start();
    return {};
  },
  run: ({ source, number, above }) => ({ good: shell.run(source, number, above) }),
  // The cells of a solution, with what a reader's answer defines in place of theirs.
  check: ({ sources, answer, number, above }) => {
    const [good, used, names] = shell.check(sources, answer, number, above).toJs();
    return { good, used, names };
  },
};

self.onmessage = async ({ data: message }) => {
  const { id } = message;
  output = (value) => postMessage({ kind: "output", id, output: value });
  try {
    postMessage({ kind: "done", id, ...(await tasks[message.task](message)) });
  } catch (error) {
    postMessage({ kind: "failed", id, reason: String(error) });
  }
};
