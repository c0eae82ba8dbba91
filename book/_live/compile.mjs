// node compile.mjs FILES TARGET: the wheels in FILES, with what every page imports
// compiled. To compile it takes a browser as long as all else that it does before the
// first cell runs; here Pyodide does it once, for the same Python.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";

const [files, target] = process.argv.slice(2).map((folder) => resolve(folder));
const { loadPyodide } = await import(pathToFileURL(join(files, "pyodide.mjs")));
const python = await loadPyodide({
  indexURL: files,
  packageBaseUrl: files + sep,
  lockFileContents: JSON.parse(
    readFileSync(new URL("pyodide-lock.json", import.meta.url)),
  ),
});
await python.loadPackage(["numpy", "sympy", "matplotlib"], { messageCallback() {} });
python.runPython(`
import io, sys, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
import matplotlib.pyplot, matplotlib.backends.backend_agg, mpmath, numpy, sympy

SITE = numpy.__file__.removesuffix("numpy/__init__.py")
FOUND = {getattr(module, "__file__", None) for module in sys.modules.values()}

def compiled(wheel):
    target = io.BytesIO()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            if name.endswith(".py") and SITE + name in FOUND:
                code = compile(body, SITE + name, "exec", dont_inherit=True)
                body = _code_to_hash_pyc(code, bytes(8), False)
                name += "c"
            new.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED, 9)
    return target.getvalue()
`);
const compiled = python.globals.get("compiled");
for (const name of readdirSync(files).filter((name) => name.endsWith(".whl"))) {
  python.FS.writeFile(name, readFileSync(join(files, name)));
  writeFileSync(join(target, name), compiled(name).toJs());
}
