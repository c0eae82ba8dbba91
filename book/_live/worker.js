// The interpreter, away from the page: the page stays alive while a cell runs. It asks no
// server: what Pyodide wants to fetch is among the files that the page has handed over.
//
// It is a worker of one page, which ends it to stop a cell, or one that the pages of a tab
// share: then the page that came last has it, with names of its own.
"use strict";

let files;
let begin; // gives a page its shell
let shell;
let page; // where the answers go
let output = () => {};
let paper = ""; // an address that can be read as long as nobody stops the cell

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
const stage = (words, part) => page.postMessage({ kind: "stage", words, part });

// No page can end a shared worker, and no message arrives while Python runs. Python asks
// now and then whether an interrupt has come: the answer is 2 when its page has withdrawn
// the address, or has gone.
let asked = 0;
const interrupt = {
  get 0() {
    const now = performance.now();
    if (now - asked < 200) return 0;
    asked = now;
    const request = new XMLHttpRequest();
    request.open("GET", paper, false);
    try {
      request.send();
      return 0;
    } catch {
      return 2;
    }
  },
  set 0(value) {},
};

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
  begin = python.runPython(`
import sys
sys.path.insert(0, "/home/pyodide")
import matplotlib as mpl
import matplotlib.pyplot as plt
import sympy, softtopk, cells
from js import Object
from pyodide.ffi import to_js

settings = dict(mpl.rcParams)

def begin():
    plt.close("all")
    mpl.rcParams.update(settings)
    emits = lambda value: emit(to_js(value, dict_converter=Object.fromEntries))
    shell = cells.Shell(emits)
    plt.show = lambda *args, **kwargs: shell.figures()
    return shell

begin
`);
  if (self.onconnect) python.setInterruptBuffer(interrupt);
}

const tasks = {
  // Without files: whether Python has been started, for another page.
  start: async (message) => {
    if (!begin && !message.files) return { ready: false };
    if (!begin) {
      files = message.files;
      await start();
    }
    shell = begin();
    return { ready: true };
  },
  end: () => self.close(),
  run: ({ source, number, above }) => ({ good: shell.run(source, number, above) }),
  // The cells of a solution, with what a reader's answer defines in place of theirs.
  check: ({ sources, answer, number, above }) => {
    const [good, used, names] = shell.check(sources, answer, number, above).toJs();
    return { good, used, names };
  },
};

async function answer(message, from) {
  const { id, task } = message;
  if (task === "start") {
    if (page && page !== from) page.postMessage({ kind: "lost" });
    page = from;
    paper = message.paper;
  }
  output = (value) => from.postMessage({ kind: "output", id, output: value });
  try {
    from.postMessage({ kind: "done", id, ...(await tasks[task](message)) });
  } catch (error) {
    from.postMessage({ kind: "failed", id, reason: String(error) });
  }
}

let last = Promise.resolve();
const listen = (from) => {
  from.onmessage = ({ data }) => (last = last.then(() => answer(data, from)));
};
if ("onconnect" in self) self.onconnect = ({ ports: [port] }) => listen(port);
else listen(self);
