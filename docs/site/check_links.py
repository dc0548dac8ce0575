"""Follows every link of the built site: `python docs/site/check_links.py build/docs`.

Pages, anchors, pictures, scripts and the pages that the table of names leads to are looked up in the folder; addresses
elsewhere are counted, not fetched. Prints what leads nowhere, and fails if there is something.
"""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote


class Page:
    """The anchors of a page, and where it leads. Quotes in the text of a page that Sphinx made are written as `&quot;`."""

    def __init__(self, text: str):
        found = [(key, unescape(value)) for key, value in re.findall(r'\s(id|name|href|src)="([^"]*)"', text)]
        self.anchors = {"", "top", *(value for key, value in found if key in ("id", "name"))}
        self.links = [value for key, value in found if key in ("href", "src") and value]


def check(folder: Path) -> tuple[list[str], int, int]:
    """Return what leads nowhere, the number of links within the site, and of those elsewhere."""
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    broken, inside, outside = [], 0, 0
    known: dict[str, bool] = {}
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"(\w+:|//)", link):
                outside += 1
                continue
            inside += 1
            address, _, anchor = link.partition("#")
            target = _resolved(name, unquote(address.partition("?")[0]))
            if target in pages:
                fine = unquote(anchor) in pages[target].anchors
            else:
                fine = known.setdefault(target, (folder / target).is_file())
            if not fine:
                broken.append(f"{name}: {link}")
    names = folder / "_static" / "names.js"
    if names.exists():
        for full, here, link in json.loads(names.read_text().partition("=")[2].strip().rstrip(";")):
            address, _, anchor = link.partition("#") if here else ("", "", "")
            inside += bool(address)
            if address and (address not in pages or anchor not in pages[address].anchors):
                broken.append(f"_static/names.js: {full}: {link}")
    return broken, inside, outside


def _resolved(page: str, address: str) -> str:
    parts = page.split("/")[:-1] if address and not address.startswith("/") else []
    for part in (address or page).split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) + ("/index.html" if address.endswith("/") else "")


def main(folder: Path) -> int:
    if not (folder / "index.html").is_file():
        print(f"check_links: there is no site in {folder}", file=sys.stderr)
        return 1
    broken, inside, outside = check(folder)
    print(
        "\n".join(broken[:50])
        + ("\n" if broken else "")
        + f"{inside} links within the site, {len(broken)} lead nowhere; {outside} lead elsewhere"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
