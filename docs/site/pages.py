"""A Sphinx extension that shows the pages of the API (api.py) without a markup language in between: what a docstring says,
whatever characters it has, becomes nodes of the document, so no text can be read as markup or make Sphinx warn."""

from __future__ import annotations

import json
import posixpath

import formulas
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.parsers import Parser

#: What of a signature goes in one line.
LINE = 76


class ApiParser(Parser):
    supported = ("facula-api",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        page = json.loads(inputstring)
        self.environment = document.settings.env
        self.here = self.environment.docname
        top = nodes.section(ids=["top"], names=["top"])
        top += nodes.title("", page["title"])
        if page.get("kind") == "module" and page["title"].startswith("torch"):
            self.environment.get_domain("py").note_module(page["title"], "top", "", "", False)
        elif page.get("kind") == "class":
            self._note(page["title"], "class", "top")
        if not page.get("sidebar"):
            self.environment.metadata[self.here]["orphan"] = "yes"
        for block in page["blocks"]:
            top += self.block(block)
        kind = next((block[1]["kind"] for block in page["blocks"] if block[0] == "object"), "function")
        for name in page["also"]:
            self._note(name, kind, "top")
        if entries := page.get("toctree"):
            tree = addnodes.toctree(
                parent=self.here, entries=[(None, name) for name in entries], includefiles=entries, maxdepth=1, caption=None,
                glob=False, hidden=True, includehidden=False, numbered=0, titlesonly=True,
            )  # fmt: skip
            top += nodes.compound("", tree, classes=["toctree-wrapper"])
        document += top

    def _note(self, name: str, kind: str, anchor: str) -> None:
        self.environment.get_domain("py").note_object(name, kind, anchor)

    def block(self, block: list) -> nodes.Element:
        return getattr(self, f"block_{block[0]}")(*block[1:])

    def blocks(self, found: list) -> list[nodes.Element]:
        return [self.block(block) for block in found]

    def block_p(self, inline: list) -> nodes.Element:
        return nodes.paragraph("", "", *self.inline(inline))

    def block_code(self, language: str, text: str) -> nodes.Element:
        return nodes.literal_block(text, text, language=language, force=True)

    def block_list(self, items: list) -> nodes.Element:
        return nodes.bullet_list("", *(nodes.list_item("", *self.blocks(item)) for item in items))

    def block_fields(self, name: str, entries: list) -> nodes.Element:
        rows = nodes.definition_list(classes=["arguments"])
        for key, body in entries:
            rows += nodes.definition_list_item(
                "", nodes.term("", "", *self.inline(key)), nodes.definition("", *self.blocks(body))
            )
        return nodes.container("", nodes.rubric("", name), rows, classes=["part"])

    def block_parameters(self, title: str, rows: list) -> nodes.Element:
        listed = nodes.definition_list(classes=["arguments"])
        for heads, body in rows:
            terms = [nodes.term("", "", *self._parameter(*head)) for head in heads]
            listed += nodes.definition_list_item("", *terms, nodes.definition("", *self.blocks(body)))
        return nodes.container("", nodes.rubric("", title), listed, classes=["part"])

    def _parameter(self, name: str, kind: list, default: str) -> list[nodes.Node]:
        shown = [nodes.strong("", "", nodes.literal(name, name))]
        if kind:
            shown += [nodes.Text(" "), nodes.inline("", "", *self.inline(kind), classes=["type"])]
        if default:
            shown += [
                nodes.Text(" "),
                nodes.inline("", "", nodes.Text("= "), nodes.literal(default, default), classes=["default"]),
            ]
        return shown

    def block_returns(self, title: str, kind: list, body: list) -> nodes.Element:
        term = nodes.term("", "", nodes.inline("", "", *self.inline(kind), classes=["type"]))
        item = nodes.definition_list_item("", term, nodes.definition("", *self.blocks(body)))
        listed = nodes.definition_list("", item, classes=["arguments"])
        return nodes.container("", nodes.rubric("", title), listed, classes=["part"])

    def block_formula(self, lines: list) -> nodes.Element:
        shown = "".join(f'<div class="formula">{formulas.mathml(line)}</div>' for line in lines)
        return nodes.raw("", f'<div class="formulas">{shown}</div>', format="html")

    def block_picture(self, address: str, text: str) -> nodes.Element:
        here = posixpath.relpath(address, posixpath.dirname(self.here) or ".")
        return nodes.container("", nodes.image("", uri=here, alt=text), classes=["picture"])

    def block_note(self, name: str, body: list) -> nodes.Element:
        return nodes.container("", nodes.rubric("", name), *self.blocks(body), classes=["part"])

    def block_table(self, head: list, rows: list) -> nodes.Element:
        count = len(rows[0]) if rows else len(head)
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in range(count)), cols=count)
        if head:
            group += nodes.thead("", self._row(head))
        group += nodes.tbody("", *map(self._row, rows))
        return nodes.table("", group, classes=["names"])

    def _row(self, cells: list) -> nodes.Element:
        return nodes.row("", *(nodes.entry("", self.block_p(cell)) for cell in cells))

    def block_section(self, title: str, anchor: str, body: list) -> nodes.Element:
        return nodes.section("", nodes.title("", title), *self.blocks(body), ids=[anchor], names=[anchor])

    def block_object(self, what: dict) -> nodes.Element:
        kind, name = what["kind"], what["name"]
        shown = addnodes.desc(domain="py", objtype=kind, desctype=kind, classes=["py", kind])
        for at, text in enumerate(what["signatures"]):
            line = addnodes.desc_signature(
                "", "", is_multiline=False, classes=["sig", "sig-object", "py"], ids=[name] if at == 0 else []
            )
            line["_toc_name"] = name.rpartition(".")[2] if at == 0 and kind in ("method", "property") else ""
            line["_toc_parts"] = tuple(name.split("."))
            if kind in ("class", "property"):
                line += addnodes.desc_annotation("", kind + " ")
            line += addnodes.desc_name("", name.rpartition(".")[2])
            line += self._signature(name, *text) if text else []
            shown += line
        shown += addnodes.desc_content("", *self.blocks(what["blocks"]))
        self._note(name, kind, name)
        return shown

    def _signature(self, name: str, parameters: list, returns: str, other: str) -> list[nodes.Node]:
        """Return `(a: int, *, b=1) -> Tensor`, an element for each parameter; one in a line where the whole is long."""
        if other:
            return [addnodes.desc_annotation("", other)]
        listed = addnodes.desc_parameterlist()
        length = len(name.rpartition(".")[2]) + len(returns)
        for label, kind, default in parameters:
            shown = [addnodes.desc_sig_name("", label)]
            shown += [nodes.Text(f": {kind}")] if kind else []
            shown += [nodes.Text((" = " if kind else "=") + default)] if default else []
            listed += addnodes.desc_parameter("", "", *shown)
            length += sum(len(node.astext()) for node in shown) + 2
        listed["multi_line_parameter_list"] = length > LINE
        listed["multi_line_trailing_comma"] = True
        return [listed, *([addnodes.desc_returns("", returns)] if returns else [])]

    def inline(self, parts: list) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for kind, text, *target in parts:
            if kind == "t":
                found.append(nodes.Text(text))
            elif kind == "c":
                found.append(nodes.literal(text, text))
            elif kind == "u":
                found.append(nodes.reference("", text, refuri=text))
            else:
                page, mark, anchor = target[0].partition("#")
                address = posixpath.relpath(page, posixpath.dirname(self.here)) + ".html" + mark + anchor
                shown = nodes.Text(text) if " " in text else nodes.literal(text, text)
                found.append(nodes.reference("", "", shown, refuri=address, internal=True))
        return found


def share_sidebar(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Let pages of the API that are not in the sidebar have one in common; made for each, it would take half the time."""
    if "orphan" not in app.env.metadata.get(pagename, ()):
        return
    made = context["toctree"]

    def toctree(**how: object) -> str:
        key = (posixpath.dirname(pagename), *sorted(how.items()))
        if key not in _sidebars:
            _sidebars[key] = made(**how)
        return _sidebars[key]

    context["toctree"] = toctree


_sidebars: dict[tuple, str] = {}


def setup(app: Sphinx) -> dict:
    app.add_source_suffix(".api", "facula-api")
    app.add_source_parser(ApiParser)
    app.connect("html-page-context", share_sidebar, priority=400)  # before the theme's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
