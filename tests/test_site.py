"""What the documentation site is made of holds together, as far as it can be seen without Sphinx. `make docs` checks the rest."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import facula
from facula import nn

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site"
sys.path += [str(SITE), str(ROOT)]

import api  # noqa: E402  (in docs/site)
import blocks  # noqa: E402
import check_links  # noqa: E402
import drawings  # noqa: E402
import parameters  # noqa: E402
import pictures  # noqa: E402
import stage  # noqa: E402
import tutorial  # noqa: E402

TUTORIALS = stage.tutorials()
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
MADE = {"api/index", "charts", "examples/index"}  # pages that no file of the repository is


def listed():
    """Pages of the site that the index leads to."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.S)
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


# pages


def test_every_page_is_listed_once():
    pages = {page for source, page in stage.places().items() if not source.startswith("examples")} - {"index"}
    assert sorted(listed()) == sorted(pages | MADE)


def test_pages_are_staged_with_their_links(tmp_path):
    made = stage.Stage(tmp_path)
    text = made.turned("[a](checkpoints.md#large-files) [b](../ARCHITECTURE.md) [c](../examples) [d](https://x.y)", "docs/errors.md", "errors")
    assert text == "[a](checkpoints.md#large-files) [b](internals/architecture.md) [c](examples/index.md) [d](https://x.y)"
    assert made.turned("[a](docs/errors.md)", "ARCHITECTURE.md", "internals/architecture") == "[a](../errors.md)"
    made.turned("![x](drawings/op.svg) [y](../benchmarks/results/names.json)", "docs/internals.md", "internals")
    assert (tmp_path / "drawings/op.svg").is_file() and (tmp_path / "files/benchmarks/results/names.json").is_file()
    assert made.turned("```\n[a](nowhere.md)\n```\n", "docs/errors.md", "errors") == "```\n[a](nowhere.md)\n```\n"
    with pytest.raises(SystemExit, match="leads nowhere: nowhere.md"):
        made.turned("[a](nowhere.md)", "docs/errors.md", "errors")


@pytest.mark.parametrize("source", [source for source in stage.places() if source.endswith(".md")])
def test_links_of_pages_resolve(source, tmp_path):
    stage.Stage(tmp_path).page(source)


def test_links_of_tutorials_resolve(tmp_path):
    for path in TUTORIALS:
        for kind, text in tutorial.cells(path.read_text()):
            if kind == "markdown":
                stage.Stage(tmp_path).turned(text, f"docs/tutorials/{path.name}", f"tutorials/{path.stem}")
                for name in re.findall(r"\{doc\}`[^<`]*<\.\./api/torch\.?([\w.]*)>`", text):
                    assert not name or hasattr(facula, name.partition(".")[0]), name


def test_drawings_are_current():
    for name, draw in drawings.DRAWINGS.items():
        assert (drawings.FOLDER / f"{name}.svg").read_text() == str(draw()), "run `python docs/site/drawings.py`"


def test_links_of_a_site_are_followed(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "names.js").write_text('const NAMES = [["torch.a",1,"b.html#here"],["torch.b",0,"no.html"]];')
    (tmp_path / "index.html").write_text('<a href="b.html#here">1</a><a href="b.html">2</a><a href="https://x.y">3</a><a href="#top">4</a>')
    (tmp_path / "b.html").write_text('<p id="here"><img src="x.svg"></p><a href="index.html#gone">5</a><a href="c.html">6</a>')
    broken, inside, outside = check_links.check(tmp_path)
    assert broken == ["b.html: x.svg", "b.html: index.html#gone", "b.html: c.html"] and (inside, outside) == (7, 1)


# tutorials


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_programs_in_cells(path):
    """They compile, begin with a title, and say where they lead; that they run is seen when the site is built."""
    cells = tutorial.cells(path.read_text())
    assert cells[0][0] == "markdown" and cells[0][1].startswith("# ")
    for kind, text in cells:
        if kind == "code":
            compile(text, path.name, "exec")


def recipes():
    """Programs that the gallery lists."""
    return [match[2] for match in stage.CARD.finditer((ROOT / "docs" / "gallery.md").read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("link", recipes(), ids=lambda link: Path(link).stem)
def test_recipes_run_and_draw(link, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("PYTHONPATH", str(Path(facula.__file__).parents[1]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [sys.executable, str(SITE / "tutorial.py"), str(ROOT / "docs" / link), "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    drawn = list(tmp_path.glob("*.svg"))
    assert drawn and all("</svg>" in path.read_text() for path in drawn)


def test_the_gallery_shows_the_last_picture_of_each_recipe(tmp_path):
    made = stage.Stage(tmp_path)
    for link in recipes():
        for at in (2, 10, 9):
            made.write(f"{link.removesuffix('.py')}-{at}-1.svg", "<svg></svg>")
    made.gallery()
    page = (tmp_path / "gallery.md").read_text()
    for link in recipes():
        name = link.removesuffix(".py")
        assert f"]({name}-10-1.svg)]({name}.md)" in page and f"{name}-9-1.svg" not in page
    assert page.count("::::{container} card\n") == len(recipes()) > 10 and "\n- [" not in page
    with pytest.raises(SystemExit, match="draws nothing"):
        stage.Stage(tmp_path).gallery()


def test_every_recipe_is_in_the_gallery():
    tree = re.search(r":caption: Gallery\n\ngallery\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.S)[1]
    assert {f"{page}.py" for page in tree.split()} <= set(recipes())


def test_what_a_tutorial_shows(tmp_path):
    program = tmp_path / "short.py"
    program.write_text("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 2\nprint('told')\nx, x + 1\n\n# %%\nx = 3\n")
    done = subprocess.run([sys.executable, str(SITE / "tutorial.py"), str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = "# Title\n\nText.\n\n```python\nx = 2\nprint('told')\nx, x + 1\n```\n\n````text\ntold\n2\n3\n````\n\n```python\nx = 3\n```\n\n"
    assert done.stdout == shown
    program.write_text("# %%\nfile = open('a.svg', 'w').write('<svg></svg>')\n")
    done = subprocess.run([sys.executable, str(SITE / "tutorial.py"), str(program), "--folder", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "short-0-a.svg").read_text() == "<svg></svg>"
    assert "![What the program drew](short-0-a.svg)" in (tmp_path / "short.md").read_text()
    program.write_text("# %%\n1 / 0\n")
    done = subprocess.run([sys.executable, str(SITE / "tutorial.py"), str(program)], capture_output=True, text=True)
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_current(path):
    program = ROOT / "docs" / "tutorials" / f"{path.stem}.py"
    assert path.read_text() == tutorial.notebook(program.read_text()), f"run `python docs/site/tutorial.py {program} --notebook {path}`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="the notebooks are run by nbclient")
    pytest.importorskip("ipykernel", reason="the notebooks are run by ipykernel")
    pytest.importorskip("matplotlib")
    nbformat = pytest.importorskip("nbformat")
    # the kernel's process finds Facula where this one does, and writes where it does no harm
    monkeypatch.setenv("PYTHONPATH", str(Path(facula.__file__).parents[1]))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and all(output.output_type != "error" for output in outputs)


# docstrings as blocks


def blocks_of(text):
    return blocks.parse(text, lambda code, named: "api/torch.add" if code == "torch.add" or (code == "add" and named) else None)


def test_blocks_of_a_docstring():
    text = """What it does with ``x`` and `torch.add`; see https://a.b/c.

    Args:
        x, y: numbers
            of any kind.
        *more: others.

    Shapes, with N = 3: input (N,);
    output (N,).

    - one
      goes on
    - two

    >>> 1 + 1
    2

    >>> 2
    2

    As code:

        x = 1
    """
    first, args, shapes, listed, example, words, code = blocks_of(text.replace("\n    ", "\n"))
    assert first == ["p", [["t", "What it does with "], ["c", "x"], ["t", " and "], ["a", "torch.add", "api/torch.add"], ["t", "; see "],
                           ["u", "https://a.b/c"], ["t", "."]]]  # fmt: skip
    assert args[:2] == ["fields", "Args"] and [key for ((_, key),), _ in args[2]] == ["x, y", "*more"]
    assert args[2][0][1] == [["p", [["t", "numbers of any kind."]]]]
    assert shapes == ["note", "Shapes, with N = 3", [["p", [["t", "input (N,); output (N,)."]]]]]
    assert listed == ["list", [[["p", [["t", "one goes on"]]]], [["p", [["t", "two"]]]]]]
    assert example == ["code", "pycon", ">>> 1 + 1\n2\n\n>>> 2\n2"]
    assert words[0] == "p" and code == ["code", "python", "x = 1"]


def test_formulas_and_references():
    assert blocks_of("Formula: y = x") == [["formula", ["y = x"]]]
    assert blocks_of("Formula:\n    a = 1\n    b = 2\n\nText.") == [["formula", ["a = 1", "b = 2"]], ["p", [["t", "Text."]]]]
    assert blocks_of("`add` ``add``") == [["p", [["a", "add", "api/torch.add"], ["t", " "], ["c", "add"]]]]


def test_signatures_in_parts():
    read = parameters.read("(a: int | Sequence[int], *, b: str = 'x, y', **more: dict[str, int]) -> tuple[Tensor, int]")
    assert read.data() == [[["a", "int | Sequence[int]", ""], ["*", "", ""], ["b", "str", "'x, y'"], ["**more", "dict[str, int]", ""]], "tuple[Tensor, int]", ""]
    assert parameters.read("int").data() == [[], "", "int"]
    both = parameters.merged([parameters.read("(x: int, self, _y)"), parameters.read("(x: int | None = None)")])
    assert both == {"x": parameters.Parameter("x", "int | None", "None")}


def test_parameters_are_described():
    text = "Text.\n\nArgs:\n  x, y: numbers.\n  z: of its own.\n\nErrors: ValueError for x < 0; torch.OutOfMemoryError where there is no memory.\n\n>>> 1\n1"
    signature = parameters.read("(z: Tensor, x: int = 1, y: int = 2, w: int = 3) -> Tensor")
    made = parameters.described([signature], blocks_of(text), lambda word: "api/torch.Tensor" if word == "Tensor" else None)
    assert [block[0] for block in made] == ["p", "parameters", "returns", "fields", "code"]
    heads = [head for heads, _ in made[1][2] for head in heads]
    assert heads == [["z", [["a", "Tensor", "api/torch.Tensor"]], ""], ["x", [["c", "int"]], "1"], ["y", [["c", "int"]], "2"], ["w", [["c", "int"]], "3"]]
    assert made[1][2][1][1] == [["p", [["t", "Numbers."]]]] and made[1][2][2][1] == []
    assert made[2] == ["returns", "Returns", [["a", "Tensor", "api/torch.Tensor"]], []]
    assert [(key, body[0][1]) for ((_, key),), body in made[3][2]] == [
        ("ValueError", [["t", "For x < 0."]]), ("torch.OutOfMemoryError", [["t", "Where there is no memory."]])
    ]  # fmt: skip

    both = parameters.described([parameters.read("(a: int, b: int)")], blocks_of("Text.\n\nAttributes:\n  a, b: given.\n  c: made."), lambda word: None)
    assert [block[:2] for block in both] == [["p", [["t", "Text."]]], ["parameters", "Parameters"], ["fields", "Attributes"]]
    listed = lambda text: parameters.raised(blocks_of(f"Errors: {text}")[0])
    assert [key for key, _ in listed("IndexError for a; ValueError or TypeError for b.")[2]] == [
        [["c", "IndexError"]], [["c", "ValueError"], ["t", " or "], ["c", "TypeError"]]
    ]  # fmt: skip
    assert listed("those of `x`.") == ["note", "Raises", [["p", [["t", "those of "], ["c", "x"], ["t", "."]]]]]


@pytest.mark.parametrize(
    "text",
    ["", "`", "``a`", "*a **b |c| _d_ <e> {f}`g`", "Args:", "Args:\n  no colon", ">>>", "| a\n| b", "::\n\n  x", "-", "Errors:\n\n\n", "\t\tx"],
)
def test_no_text_is_too_odd(text):
    json.dumps(blocks_of(text))
    blocks.first_sentence(text)


@pytest.mark.parametrize(("text", "first"), [
    ("One. Two.", "One"), ("Of 1.5 or i.e. so. More", "Of 1.5 or i.e. so"), ("One\ngoes on.\n\nTwo.", "One goes on"), ("Gives:\n\n>>> 1", "Gives"),
])  # fmt: skip
def test_first_sentences(text, first):
    assert blocks.first_sentence(text) == first


@pytest.fixture(scope="module")
def site():
    made = api.Site()
    made.build()
    return made


def test_every_public_name_has_a_page(site):
    from codegen import docstrings

    for name in docstrings.names():
        page, _, anchor = site.targets[name.path].partition("#")
        assert page in site.pages and (not anchor or anchor in json.dumps(site.pages[page])), name.path
    assert len(site.pages) > 3000


def test_pages_say_what_docstrings_and_the_schema_say(site):
    page = json.dumps(site.pages["api/torch.add"])
    assert "The first summand" in page and "_scale_grad(grad, alpha)" in page and "ops/elementwise.yaml" in page and "Stated in ops/" not in page
    page = json.dumps(site.pages["api/torch.nn.Linear"])
    assert '["in_features", "int", ""]' in page and '"torch.nn.Module"' in page and "reset_parameters" in page
    page = json.dumps(site.pages["api/torch.Tensor.add"])
    assert "torch.Tensor.add_" in page and len(nn.Linear.__doc__) > 0
    assert "torch.nn.Linear" in json.dumps(site.pages["api/torch.nn"])


def test_arguments_of_methods_stand_once_in_the_class(site):
    """`sample_shape` is explained in Distribution, for its methods and for those of families."""
    told = {(name, word): body for name, word, _, body in api.parameters_of(site)}
    assert "how many samples are drawn" in json.dumps(told["torch.distributions.Distribution.sample", "sample_shape"]).lower()
    shown = json.dumps(site.pages["api/torch.distributions.Distribution"])
    assert '"Arguments of methods"' in shown and ("torch.distributions.Distribution", "sample_shape") not in told


def test_parameters_have_types_and_sentences(site):
    """Of all parameters with a type; `python docs/site/api.py` prints the names of the others."""
    rows = list(api.parameters_of(site))
    told = sum(bool(kind) and bool(body) for _, _, kind, body in rows)
    assert len(rows) > 11000 and told / len(rows) > 0.975, f"{told} of {len(rows)}"


def test_pages_of_functions_show_what_layers_do(site):
    page = json.dumps(site.pages["api/torch.nn.functional.mish"])
    assert '"formula"' in page and "pictures/nn.Mish.svg" in page and '"torch.nn.Mish", "api/torch.nn.Mish"' in page
    assert site.twins["nn.CrossEntropyLoss"] == "nn.functional.cross_entropy" and site.twins["nn.functional.binary_cross_entropy"] == "nn.BCELoss"


def test_pictures_have_pages_and_words(site):
    known = {name.path for name in site.tops} | {other for others in site.aliases.values() for other in others}
    assert set(pictures.PICTURES) <= known, set(pictures.PICTURES) - known
    every = {picture.file: picture for found in pictures.PICTURES.values() for picture in found}
    assert len(every) > 120 and all(len(picture.words) > 25 for picture in every.values())
    shown = json.dumps(list(site.pages.values()))
    assert [file for file in every if f"pictures/{file}" not in shown] == []


@pytest.mark.parametrize("name", ["nn.GELU", "nn.Conv2d", "distributions.Beta", "optim.lr_scheduler.StepLR"])
def test_pictures_are_drawn(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "PICTURES", {name: pictures.PICTURES[name]})
    assert pictures.write(tmp_path) == 1
    (path,) = (tmp_path / "pictures").glob("*.svg")
    text = path.read_text()
    assert "</svg>" in text and pictures.INK in text and "#ffffff" not in text  # no background, and readable on any


def test_the_front_page_has_sections_of_readme():
    text = stage.with_readme((ROOT / "docs" / "index.md").read_text(), "docs/index.md")
    assert "none has run on a real GPU" in " ".join(text.replace("\n>", "").split()) and "](drawings/ratios.svg)" in text
    with pytest.raises(SystemExit, match="no section 'Gone'"):
        stage.with_readme("<!-- of README: Gone -->\n<!-- end -->\n", "docs/index.md")


def test_the_filter_knows_every_name_of_pytorch(site, tmp_path):
    stage.Stage(tmp_path).names(site)
    rows = json.loads((tmp_path / "_static" / "names.js").read_text().partition("=")[2].rstrip("; \n"))
    found = {name: (here, rest) for name, here, rest in rows}
    assert found["torch.add"] == (1, "api/torch.add.html") and found["torch.nn.Linear"] == (1, "api/torch.nn.Linear.html")
    assert found["torch.Tensor.add_"] == (1, "api/torch.Tensor.add.html") and found["torch.float32"][0] == 1
    assert found["torch.Tensor.to_mkldnn"] == (0, "the op of one vendor's library, which PyTorch calls by itself; use the op without the library's name")
    assert found["torch.symeig"] == (0, "removed in PyTorch 1.9; use linalg.eigh")
    assert sum(len(names) for names in stage.supported.names()[1].values()) <= len(rows)
    pages = {rest.partition("#")[0] for here, rest in found.values() if here and rest}
    assert {page.removesuffix(".html") for page in pages} <= set(site.pages) and len(pages) > 2000


def test_links_between_pages_of_the_api_resolve(site):
    known = set(site.pages) | {"supported", "internals/ops"}
    anchors = {page: set(re.findall(r'"name": "([\w.]+)"', json.dumps(text))) for page, text in site.pages.items()}

    def links(block):
        if isinstance(block, list) and len(block) == 3 and block[0] == "a" and isinstance(block[1], str) and isinstance(block[2], str):
            yield block[2]
        elif isinstance(block, (list, dict)):
            for part in block["blocks"] if isinstance(block, dict) else block:  # a parameter of a signature may be called a
                yield from links(part)

    for page, text in site.pages.items():
        for link in links(text["blocks"]):
            target, _, anchor = link.partition("#")
            assert target in known and (not anchor or anchor in anchors[target]), f"{page}: {link}"
