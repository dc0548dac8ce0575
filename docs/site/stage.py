"""Gathers what the site is made of in one folder, as Sphinx reads it: `stage(folder)`.

Pages stand in the repository where their readers find them (docs/, ARCHITECTURE.md, ops/README.md, examples/); here
they get the place that they have on the site, and their links are turned to it. A link to a file that is no page
carries the file along; one to nothing fails. Made on the way: the pages of the API, those of tutorials (which run), the
pictures of the gallery, charts, the table of names. Files are written only when they change, so a second build is short.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import api
import charts
import densities  # noqa: F401  (adds its pictures)
import masks  # noqa: F401  (adds its pictures)
import pictures
import tutorial

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(ROOT))

from codegen import supported  # noqa: E402  (beside the package, not in it)

CARD = re.compile(r"(?m)^- \[([^\]]+)\]\((tutorials/(\w+)\.py)\): (.+)$")  # a recipe in docs/gallery.md
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
FILTER = """
```{raw} html
<p><input id="name-filter" type="search" aria-label="Filter names" autocomplete="off"
  placeholder="Filter by name, such as grid_sample or nn.LSTM"></p>
<div class="table-wrapper docutils container"><table class="names docutils align-default" id="name-table" hidden>
<thead><tr><th>name in PyTorch</th><th>here</th></tr></thead><tbody></tbody></table></div>
<p id="name-count" role="status"></p>
<script src="_static/names.js"></script><script src="_static/filter.js"></script>
```

"""


def examples() -> list[Path]:
    return sorted((ROOT / "examples").glob("*.py"))


def tutorials() -> list[Path]:
    return sorted((DOCS / "tutorials").glob("*.py"))


def places() -> dict[str, str]:
    """Return {file or folder of the repository: page of the site, without suffix}."""
    found = {f"docs/{path.name}": path.stem for path in DOCS.glob("*.md")}
    found |= {f"docs/internals/{path.name}": f"internals/{path.stem}" for path in (DOCS / "internals").glob("*.md")}
    found |= {f"docs/tutorials/{path.name}": f"tutorials/{path.stem}" for path in tutorials()}
    found |= {f"examples/{path.name}": f"examples/{path.stem}" for path in examples()}
    return found | {
        "ARCHITECTURE.md": "internals/architecture", "CONTRIBUTING.md": "internals/contributing",
        "ops/README.md": "internals/ops",
        "bindings/rust/README.md": "rust", "examples": "examples/index",
    }  # fmt: skip


def with_readme(text: str, source: str) -> str:
    """Return the text of a page with sections of README in the place of what refers to them: `<!-- of README: title -->`."""
    readme = (ROOT / "README.md").read_text()

    def near(match: re.Match) -> str:
        outside = re.match(r"\w+:", match.group(2))
        target = match.group(2) if outside else posixpath.relpath(match.group(2), posixpath.dirname(source) or ".")
        return match.group(1) + target + match.group(3)

    def section(match: re.Match) -> str:
        found = re.search(rf"(?ms)^## {re.escape(match.group(1))}\n(.*?)(?=^## |\Z)", readme)
        if found is None:
            raise SystemExit(f"{source}: README has no section '{match.group(1)}'")
        return LINK.sub(near, found.group(1).strip()) + "\n"

    return re.sub(r"(?ms)^<!-- of README: ([^\n]+) -->\n.*?^<!-- end -->\n", section, text)


class Stage:
    def __init__(self, folder: Path):
        self.folder = folder
        self.places = places()
        self.written: set[Path] = set()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        self.written.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def copy(self, source: Path, name: str) -> None:
        path = self.folder / name
        self.written.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != source.read_bytes():
            shutil.copyfile(source, path)

    def turned(self, text: str, source: str, page: str) -> str:
        """Return the text of a file of the repository with links as they are on the site."""

        def turn(match: re.Match) -> str:
            target = match.group(2)
            if re.match(r"\w+:", target):
                return match.group(0)
            here = posixpath.dirname(source)
            file = posixpath.normpath(posixpath.join(here, target))
            if file in self.places:
                new = f"{self.places[file]}.md"
            elif (ROOT / file).is_file():
                new = file.removeprefix("docs/") if file.startswith("docs/") else f"files/{file}"
                self.copy(ROOT / file, new)
            elif (
                target.startswith(("charts.md", "api/"))
                or (self.folder / posixpath.join(posixpath.dirname(page), target)).is_file()
            ):
                return match.group(0)  # made for the site
            else:
                raise SystemExit(f"{source}: a link leads nowhere: {target}")
            return match.group(1) + posixpath.relpath(new, posixpath.dirname(page) or ".") + match.group(3)

        parts = re.split(r"(?ms)^(```+.*?^```+\s*?$)", text)  # what is in fences is code
        return "".join(part if part.startswith("```") else LINK.sub(turn, part) for part in parts)

    def page(self, source: str, more: str = "") -> None:
        page = self.places[source]
        text = (ROOT / source).read_text()
        if more:
            head, blank, rest = text.partition("\n\n")
            text = head + blank + more + rest
        self.write(f"{page}.md", self.turned(with_readme(text, source), source, page))

    def example(self, path: Path) -> None:
        text = path.read_text()
        self.write(f"examples/{path.stem}.md", f"# `examples/{path.name}`\n\n````python\n{text}````\n")

    def example_index(self) -> None:
        rows = []
        for path in examples():
            first = re.match(r'"""(.+?)(?:\n|""")', path.read_text())
            rows.append(f"| [`{path.name}`]({path.stem}.md) | {first.group(1) if first else ''} |")
        tree = "\n".join(path.stem for path in examples())
        text = "Whole programs, run by the tests. Each says at its top how it is started.\n\n"
        text += "| program | what it does |\n|---|---|\n"
        self.write(
            "examples/index.md", f"# Examples\n\n{text}" + "\n".join(rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
        )

    def tutorial(self, path: Path) -> None:
        """Run a tutorial in a process of its own; its page ends with the program as a file and as a notebook."""
        with_pages = self.folder.parent / f"{self.folder.name}-tutorials"
        with_pages.mkdir(parents=True, exist_ok=True)
        for picture in with_pages.glob(f"{path.stem}-*.svg"):  # of another build
            picture.unlink()
        command = [sys.executable, str(DOCS / "site" / "tutorial.py"), str(path), "--folder", str(with_pages)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise SystemExit(f"{path.name}: the tutorial failed\n{done.stderr}{done.stdout}")
        self.copy(path, f"files/{path.name}")
        self.write(f"files/{path.stem}.ipynb", tutorial.notebook(path.read_text()))
        text = (with_pages / f"{path.stem}.md").read_text()
        for picture in sorted(with_pages.glob(f"{path.stem}-*.svg")):
            self.copy(picture, f"tutorials/{picture.name}")
        program, notebook = (f"{{download}}`{name} <../files/{name}>`" for name in (path.name, f"{path.stem}.ipynb"))
        links = f"\n---\n\nThis page is a program that ran when the site was built: {program}, as a notebook {notebook}.\n"
        source = f"docs/tutorials/{path.name}"
        self.write(f"tutorials/{path.stem}.md", self.turned(text, source, f"tutorials/{path.stem}") + links)

    def gallery(self) -> None:
        """Write the gallery: each list of recipes as cards with the last picture that the recipe drew."""

        def card(match: re.Match) -> str:
            title, link, name, sentence = match.groups()
            drawn = [path for path in self.written if re.fullmatch(rf"{name}-\d+-\w+\.svg", path.name)]
            pictures = sorted(drawn, key=lambda path: int(path.stem.split("-")[1]))
            if not pictures:
                raise SystemExit(f"docs/gallery.md: {link} draws nothing")
            picture = f"[![{title}](tutorials/{pictures[-1].name})]({link})"
            return f"::::{{container}} card\n{picture}\n\n**[{title}]({link})**\\\n{sentence[0].upper()}{sentence[1:]}\n::::"

        text = (DOCS / "gallery.md").read_text()
        text = re.sub(r"(?m)(^- .+\n)+", lambda cards: f":::::{{container}} cards\n{cards[0]}:::::\n", text)
        self.write("gallery.md", self.turned(CARD.sub(card, text), "docs/gallery.md", "gallery"))

    def names(self, site: api.Site) -> None:
        """Write every public name of PyTorch with its page, or the reason why it is not here: what the filter looks through."""
        table, (_, public) = supported.table(), supported.names()
        targets = dict(site.targets)
        for first, others in site.aliases.items():
            targets |= dict.fromkeys(others, site.targets[first])
        missing, reasons = table["MODULES"], {}
        for reason, modules in table["NAMES"].items():
            why, instead = table["REASONS"][reason]
            for module, listed in modules.items():
                for name in listed:
                    reasons[module, name] = why + (f"; use {instead}" if instead else "")
        rows = []
        for module, listed in sorted(public.items()):
            for name in listed:
                full = f"{module}.{name}"
                if name in missing.get(module, ()):
                    rows.append([full, 0, reasons.get((module, name), "not supported")])
                else:
                    page, mark, anchor = targets.get(full.removeprefix("torch."), "").partition("#")
                    rows.append([full, 1, f"{page}.html{mark}{anchor}" if page else ""])
        rows += [[name, 0, f"removed in PyTorch {since}; use {instead}"] for name, (since, instead) in table["REMOVED"].items()]
        self.write("_static/names.js", f"const NAMES = {json.dumps(rows, separators=(',', ':'))};\n")

    def everything(self) -> int:
        for source in self.places:
            if source.endswith(".md") and source != "docs/gallery.md":
                self.page(source, FILTER if source == "docs/supported.md" else "")
        for path in examples():
            self.example(path)
        self.example_index()
        charts.write(self.folder)
        pictures.write(self.folder)
        site = api.Site()
        count = api.write(self.folder, site.build())
        self.names(site)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.tutorial, tutorials()))
        self.gallery()
        self.clear()
        return count

    def some(self, pattern: str) -> int:
        """Write the pages of the API whose names match, with their pictures, and a page that lists them."""
        pages = {name: page for name, page in api.Site().build().items() if fnmatch(name.removeprefix("api/"), pattern)}
        shown = json.dumps(list(pages.values()))
        pictures.write(self.folder, lambda file: f"pictures/{file}" in shown)
        self.write("_static/names.js", "const NAMES = [];\n")
        listed = "\n".join(pages)
        self.write("index.md", f"# Some pages\n\n```{{toctree}}\n{listed}\n```\n")
        return api.write(self.folder, {name: {**page, "sidebar": True, "toctree": []} for name, page in pages.items()})

    def clear(self) -> None:
        """Take away pages whose sources are gone."""
        for path in self.folder.rglob("*.md"):
            if path not in self.written and path.name != "charts.md":
                path.unlink()


def stage(folder: Path, only: str = "") -> int:
    """Write all sources of the site below `folder`, or those of some pages of the API; return how many of these there are."""
    folder.mkdir(parents=True, exist_ok=True)
    return Stage(folder).some(only) if only else Stage(folder).everything()


if __name__ == "__main__":
    print(stage(Path(sys.argv[1]), *sys.argv[2:]))
