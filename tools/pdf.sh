#!/usr/bin/env bash
# Prints the book: LaTeX by Jupyter Book, then XeLaTeX until every reference stands.
# Any warning of the first, and any error or open reference of the second, ends it.
# With --packages: the names of the Debian packages that it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

packages="latexmk texlive-xetex texlive-latex-recommended texlive-latex-extra
  texlive-fonts-recommended texlive-lang-chinese tex-gyre fonts-dejavu-core
  fonts-freefont-otf fonts-noto-cjk"
if [ "${1-}" = --packages ]; then
  echo $packages
  exit
fi

missing=""
for tool in latexmk xelatex makeindex; do
  command -v "$tool" >/dev/null || missing+=" $tool"
done
if command -v kpsewhich >/dev/null; then
  for file in xeCJK.sty framed.sty newunicodechar.sty pgfplots.sty tabulary.sty; do
    kpsewhich "$file" >/dev/null || missing+=" $file"
  done
fi
for font in "FreeSerif" "DejaVu Sans Mono" "Noto Serif CJK SC"; do
  [ -n "$(fc-list "$font" 2>/dev/null)" ] || missing+=" ($font)"
done
if [ -n "$missing" ]; then
  echo "make pdf needs what is not here:$missing" >&2
  echo "Debian and Ubuntu: apt-get install" $packages >&2
  exit 1
fi

.venv/bin/jupyter-book build . --builder latex -W --keep-going -n
cd _build/latex
latexmk -xelatex -halt-on-error -interaction=nonstopmode -quiet softtopk.tex
if grep -a "Hyper reference\|There were undefined" softtopk.log >&2; then exit 1; fi
pages=$(grep -ao 'softtopk.xdv ([0-9]* pages' softtopk.log | grep -o '[0-9]* pages')
echo "The printed edition: _build/latex/softtopk.pdf, $pages"
